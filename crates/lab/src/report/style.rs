//! The report's style sheet: light and dark, wide and narrow, no font or file from elsewhere.

pub(super) const SHEET: &str = "
:root{color-scheme:light dark;--paper:#fbfaf7;--ink:#1d2126;--soft:#5c6670;--rule:#dcdad2;--card:#fff;--accent:#8a4b08;--good:#1d6b3c;--bad:#a11d33;
--c0:#b3540a;--c1:#2563a8;--c2:#2c7d4f;--c3:#8d3f97;--c4:#b02a48;--c5:#57707f;--c6:#8a7400;--c7:#1c8a8a;--c8:#6a5acd;--c9:#99621e}
@media(prefers-color-scheme:dark){:root{--paper:#15181c;--ink:#e8e6e1;--soft:#9aa4ae;--rule:#2d333a;--card:#1c2026;--accent:#f0a35c;--good:#6fce97;--bad:#f5849c;
--c0:#f79a4b;--c1:#6fb0f5;--c2:#6fce97;--c3:#d99be2;--c4:#f5849c;--c5:#a3b8c4;--c6:#dcc75a;--c7:#67d1d1;--c8:#aea3fa;--c9:#d8a873}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.55 system-ui,-apple-system,sans-serif}
main{max-width:1120px;margin:0 auto;padding:2rem 1.2rem 4rem}
h1{font-size:1.05rem;letter-spacing:.06em;text-transform:uppercase;color:var(--soft);font-weight:600;margin:0}
.verdict{font-size:1.4rem;line-height:1.35;font-weight:600;margin:.5rem 0 1rem;max-width:56rem;text-wrap:pretty}
h2{font-size:1.2rem;margin:2.6rem 0 .6rem}
h3{font-size:1rem;margin:0 0 .5rem}.targets td:first-child::first-letter{text-transform:uppercase}figcaption{margin-top:.6rem}
.meta,figcaption,.small{color:var(--soft);font-size:.9rem}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,460px),1fr));gap:1.1rem}
figure{margin:0;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:1rem}
svg{width:100%;height:auto;display:block}
.grid{stroke:var(--rule)}.axis{fill:var(--soft);font-size:17px}
.line{fill:none;stroke:var(--c);stroke-width:2.4}.line.study{stroke-dasharray:5 4;opacity:.75}
.dot{fill:var(--c)}.key.study,.bar.study{background:none;border:1.5px dashed var(--c)}
.bars{display:grid;gap:.32rem;font-size:.9rem}.row{display:grid;grid-template-columns:minmax(8rem,14rem) 1fr 5.6rem;gap:.7rem;align-items:center;line-height:1.25}
.row b{font-weight:600;text-align:right;font-variant-numeric:tabular-nums}.row.study{color:var(--soft);font-style:italic}
.track{display:block}.bar{display:block;height:.85rem;min-width:2px;border-radius:2px;background:var(--c)}
.good{color:var(--good);font-weight:600}.bad{color:var(--bad);font-weight:600}table.targets td:first-child,table.targets td:nth-child(2){white-space:normal;min-width:11rem}
.c0{--c:var(--c0)}.c1{--c:var(--c1)}.c2{--c:var(--c2)}.c3{--c:var(--c3)}.c4{--c:var(--c4)}.c5{--c:var(--c5)}.c6{--c:var(--c6)}
.c7{--c:var(--c7)}.c8{--c:var(--c8)}.c9{--c:var(--c9)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.15rem 1rem;padding:0;margin:.5rem 0 0;font-size:.86rem}
.key{display:inline-block;width:.8em;height:.8em;border-radius:2px;background:var(--c);margin-right:.4em}
.scroll{overflow-x:auto;border:1px solid var(--rule);border-radius:8px;background:var(--card);margin:.6rem 0}
table{border-collapse:collapse;width:100%;font-size:.9rem}
th,td{padding:.42rem .65rem;text-align:left;border-bottom:1px solid var(--rule);white-space:nowrap}
tr:last-child td{border-bottom:0}th{color:var(--soft);font-weight:600;white-space:normal;vertical-align:bottom;line-height:1.25}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.remark{white-space:normal;color:var(--soft);max-width:16rem}
tr.own td{font-weight:600}tr.study td{font-style:italic;color:var(--soft)}
details{border-top:1px solid var(--rule);padding:.6rem 0}summary{cursor:pointer;font-weight:600}
details.more{border:0;padding:.3rem 0 0}.more summary{font-weight:400;font-size:.9rem;color:var(--soft);margin-bottom:.5rem}
pre{overflow-x:auto;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:.8rem;font-size:.8rem;line-height:1.45}
a,button.link{color:var(--accent)}
button.link{background:none;border:0;font:inherit;padding:0;text-decoration:underline;cursor:pointer}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.2rem 1rem}dt{color:var(--soft)}dd{margin:0;overflow-wrap:anywhere}
@media(max-width:600px){main{padding:1.2rem .8rem 3rem}.verdict{font-size:1.15rem}table.targets tr{display:grid;grid-template-columns:1fr auto;border-bottom:1px solid var(--rule);padding:.45rem 0}table.targets tr:first-child{display:none}table.targets td{border:0;padding:.05rem .8rem;text-align:left;min-width:0}table.targets td.n{font-size:.85rem;color:var(--soft)}table.targets td:first-child{grid-column:1/-1;font-weight:600}figure{padding:.7rem}.axis{font-size:22px}.row{grid-template-columns:1fr auto;gap:.1rem .6rem}.row .track{grid-column:1/-1;grid-row:2}dl{grid-template-columns:1fr}dd{margin-bottom:.4rem}}
@media print{details{break-inside:avoid}figure{break-inside:avoid}}
";
