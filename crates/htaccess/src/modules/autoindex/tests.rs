mod rows;

use super::*;
use crate::DirectiveSettings;
use crate::testing::{Nowhere, request, settings, transaction, try_settings};
use crate::work::WorkBudget;

fn entry(name: &str, size: u64, minute: i64) -> FolderEntry {
    FolderEntry {
        name: name.into(),
        size,
        modified: (1_577_880_000 + minute * 60) * 1_000_000,
        content_type: name.ends_with(".png").then(|| b"image/png".to_vec()),
        encoding: name.ends_with(".gz").then(|| b"x-gzip".to_vec()),
        is_directory: !name.contains('.'),
    }
}

fn folder() -> Listing {
    Listing {
        entries: vec![
            entry("b.txt", 2000, 3),
            entry("a<&.png", 12, 1),
            entry("sub", 4096, 2),
            entry("A.txt", 0, 4),
            entry("v10.gz", 5, 5),
            entry("v9.gz", 6, 6),
        ],
        signature: b"<address>here</address>\n".to_vec(),
        ..Listing::default()
    }
}

fn page_of(directives: &str, target: &str, listing: &Listing) -> String {
    page_with(&settings(directives), target, listing)
}

fn page_with(settings: &DirectiveSettings, target: &str, listing: &Listing) -> String {
    let request = request(target, "");
    let mut tx = transaction(&request);
    tx.state.args = request.query().map(<[u8]>::to_vec);
    let config = &settings.autoindex;
    String::from_utf8(page(&tx, config.as_deref(), &mut Nowhere::default(), listing)).unwrap()
}

/// The names, in the order of the links behind the heading.
fn names(directives: &str, target: &str) -> String {
    names_with(&settings(directives), target)
}

fn names_with(settings: &DirectiveSettings, target: &str) -> String {
    let page = page_with(settings, target, &folder());
    let links = page.split("<a href=\"").skip(1);
    let links: Vec<_> = links
        .filter_map(|link| link.split('"').next())
        .filter(|link| !link.starts_with('?'))
        .collect();
    links.join(" ")
}

const START: &str = "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 4.01//EN\" \
    \"http://www.w3.org/TR/html4/strict.dtd\">\n\
    <html>\n <head>\n  <title>Index of /d</title>\n </head>\n <body>\n";

#[test]
fn bullets() {
    let listing = Listing {
        entries: vec![entry("a<&.png", 12, 1)],
        ..Listing::default()
    };
    let expected = "<h1>Index of /d</h1>\n<ul><li><a href=\"/\"> Parent Directory</a></li>\n\
                    <li><a href=\"a%3c&amp;.png\"> a&lt;&amp;.png</a></li>\n</ul>\n\
                    </body></html>\n";
    assert_eq!(page_of("", "/d/", &listing), format!("{START}{expected}"));
}

#[test]
fn columns() {
    let listing = Listing {
        entries: vec![entry("a-name-that-is-longer.txt", 2000, 1), entry("sub", 0, 2)],
        ..Listing::default()
    };
    let directives = "IndexOptions FancyIndexing\nAddIcon (TXT,/t.gif) .txt\n\
        AddDescription \"a <b>text</b>\" *.txt";
    let expected = [
        "<h1>Index of /d</h1>\n<pre>      <a href=\"?C=N;O=D\">Name</a>                    ",
        "<a href=\"?C=M;O=A\">Last modified</a>      <a href=\"?C=S;O=A\">Size</a>  ",
        "<a href=\"?C=D;O=A\">Description</a><hr>",
        "      <a href=\"/\">Parent Directory</a>                             -   \n",
        "<img src=\"/t.gif\" alt=\"[TXT]\"> ",
        "<a href=\"a-name-that-is-longer.txt\">a-name-that-is-longe..&gt;</a> 2020-01-01 12:01  \
         2.0K  a <b>text</b>\n",
        "      <a href=\"sub/\">sub/</a>                    2020-01-01 12:02    -   \n",
        "<hr></pre>\n</body></html>\n",
    ]
    .concat();
    assert_eq!(page_of(directives, "/d/", &listing), format!("{START}{expected}"));
}

#[test]
fn a_table() {
    let listing = Listing {
        entries: vec![entry("a.txt", 12, 1)],
        ..Listing::default()
    };
    let page = page_of("IndexOptions HTMLTable\nIndexStyleSheet /s.css", "/", &listing);
    let expected = "  <h1 id=\"indextitle\">Index of /</h1>\n  <table id=\"indexlist\">\n   <tr \
        class=\"indexhead\">\
        <th class=\"indexcolicon\">&nbsp;</th><th class=\"indexcolname\"><a \
        href=\"?C=N;O=D\">Name</a></th>\
        <th class=\"indexcollastmod\"><a href=\"?C=M;O=A\">Last modified</a></th>\
        <th class=\"indexcolsize\"><a href=\"?C=S;O=A\">Size</a></th>\
        <th class=\"indexcoldesc\"><a href=\"?C=D;O=A\">Description</a></th></tr>\n\
        \x20  <tr class=\"indexbreakrow\"><th colspan=\"5\"><hr></th></tr>\n\
        \x20  <tr class=\"even\"><td class=\"indexcolicon\">&nbsp;</td>\
        <td class=\"indexcolname\"><a href=\"a.txt\">a.txt</a>                  </td>\
        <td class=\"indexcollastmod\">2020-01-01 12:01  </td><td class=\"indexcolsize\"> 12 </td>\
        <td class=\"indexcoldesc\">&nbsp;</td></tr>\n\
        \x20  <tr class=\"indexbreakrow\"><th colspan=\"5\"><hr></th></tr>\n</table>\n";
    assert!(page.contains(expected), "{page}");
}

/// A page with one file that has everything that a row shows.
fn one_row(options: &str, description: &str) -> String {
    let listing = Listing {
        entries: vec![entry("a.txt", 2000, 1)],
        ..Listing::default()
    };
    let directives =
        format!("IndexOptions {options}\nDefaultIcon /i\nAddDescription \"{description}\" *.txt");
    page_of(&directives, "/d/", &listing)
}

#[test]
fn options_leave_columns_out() {
    let parts = [
        ("SuppressIcon", "<img src=\"/i\""),
        ("SuppressLastModified", "2020-01-01"),
        ("SuppressSize", "2.0K"),
        ("SuppressDescription", "TEXT"),
        ("SuppressColumnSorting", "?C=N;O=D"),
        ("SuppressRules", "<hr>"),
    ];
    for form in ["FancyIndexing", "HTMLTable"] {
        for (option, _) in [("", "")].iter().chain(&parts) {
            let page = one_row(&format!("{form} {option}"), "TEXT");
            for (other, part) in parts {
                assert_eq!(page.contains(part), *option != other, "{form} {option}: {page}");
            }
        }
        let page = |option: &str| one_row(&format!("{form} {option}"), "TEXT");
        let icon_link = "<a href=\"a.txt\"><img src=\"/i\"";
        assert!(page("IconsAreLinks").contains(icon_link) && !page("").contains(icon_link));
        assert!(page("UseOldDateFormat").contains("01-Jan-2020 12:01"), "{form}");
        assert!(page("XHTML").contains("<hr />") && page("XHTML").contains("\" />"), "{form}");
        let sizes = "width=\"3\" height=\"4\"";
        assert!(page("IconWidth=3 IconHeight=4").contains(sizes), "{form}");
        assert!(!page("").contains("width=") && !page("").contains("height="), "{form}");
    }
}

#[test]
fn a_description_is_cut_to_its_column() {
    let x = |count: usize| "x".repeat(count);
    let cut = |count: usize| format!("{}&gt;", x(count - 1)).replace("&gt;", ">");
    let narrow = "DescriptionWidth=12";
    let rows = [
        ("", x(23), x(23)),
        ("", x(24), cut(23)),
        ("SuppressSize", x(30), x(30)),
        ("SuppressSize", x(31), cut(30)),
        ("SuppressLastModified", x(43), cut(42)),
        ("SuppressIcon", x(30), cut(29)),
        (narrow, x(12), x(12)),
        (narrow, x(13), cut(12)),
        (narrow, format!("<b>{}", x(13)), format!("<b>{}", cut(12))),
        (narrow, format!("<b>{}</b>", x(12)), format!("<b>{}</b>", x(12))),
        (narrow, format!("&amp;{}", x(11)), format!("&amp;{}", x(11))),
        (narrow, format!("&amp;{}", x(12)), format!("&amp;{}", cut(11))),
        (narrow, format!("&{}", x(20)), format!("&{}", x(20))),
        ("DescriptionWidth=*", x(99), x(99)),
    ];
    for (options, text, expected) in rows {
        let page = one_row(&format!("FancyIndexing {options}"), &text);
        assert!(page.contains(&format!(" {expected}\n")), "{options} {text}: {page}");
    }
}

#[test]
fn capital_letters_come_first_unless_case_is_ignored() {
    let listing = Listing {
        entries: ["b.txt", "C.txt", "a.txt"].map(|name| entry(name, 1, 1)).to_vec(),
        ..Listing::default()
    };
    for (options, expected) in
        [("FancyIndexing", "C.txt a.txt b.txt"), ("FancyIndexing IgnoreCase", "a.txt b.txt C.txt")]
    {
        let page = page_of(&format!("IndexOptions {options}"), "/d/", &listing);
        let links = page.split("<a href=\"").filter_map(|link| link.split('"').next());
        let files: Vec<_> = links.filter(|link| link.ends_with(".txt")).collect();
        assert_eq!(files.join(" "), expected, "{options}");
    }
}

#[test]
fn order() {
    let fancy = "IndexOptions FancyIndexing";
    let table = [
        ("", "/d/", "/ A.txt a%3c&amp;.png b.txt sub/ v10.gz v9.gz"),
        ("", "/d/?C=N;O=D", "/ v9.gz v10.gz sub/ b.txt a%3c&amp;.png A.txt"),
        (fancy, "/d/?C=S", "/ sub/ A.txt v10.gz v9.gz a%3c&amp;.png b.txt"),
        (fancy, "/d/?C=M;O=D", "/ v9.gz v10.gz A.txt b.txt sub/ a%3c&amp;.png"),
        (fancy, "/d/?V=1", "/ A.txt a%3c&amp;.png b.txt sub/ v9.gz v10.gz"),
        (fancy, "/d/?P=*.txt", "/ A.txt b.txt"),
        (fancy, "/d/?P=*.txt;O=D", "/ b.txt A.txt"),
        (fancy, "/d/?what;O=D", "/ A.txt a%3c&amp;.png b.txt sub/ v10.gz v9.gz"),
        ("IndexOptions IgnoreCase", "/d/", "/ A.txt a%3c&amp;.png b.txt sub/ v10.gz v9.gz"),
        (
            "IndexOptions FancyIndexing FoldersFirst",
            "/d/?O=D",
            "/ sub/ v9.gz v10.gz b.txt a%3c&amp;.png A.txt",
        ),
        (
            "IndexOptions FancyIndexing VersionSort IgnoreClient",
            "/d/?O=D",
            "/ A.txt a%3c&amp;.png b.txt sub/ v9.gz v10.gz",
        ),
        (
            "IndexOptions FancyIndexing\nIndexOrderDefault Descending Size",
            "/d/",
            "/ b.txt a%3c&amp;.png v9.gz v10.gz A.txt sub/",
        ),
        (
            "IndexOptions FancyIndexing\nIndexOrderDefault Ascending Date",
            "/d/",
            "/ a%3c&amp;.png sub/ b.txt A.txt v10.gz v9.gz",
        ),
        (
            "IndexOptions FancyIndexing\nIndexOrderDefault Descending Name",
            "/d/",
            "/ v9.gz v10.gz sub/ b.txt a%3c&amp;.png A.txt",
        ),
        (
            "IndexOptions FancyIndexing\nAddDescription a b.txt\nAddDescription b A.txt\n\
             IndexOrderDefault Descending Description",
            "/d/",
            "/ A.txt b.txt v9.gz v10.gz sub/ a%3c&amp;.png",
        ),
        ("IndexIgnore *.txt sub", "/d/", "/ a%3c&amp;.png v10.gz v9.gz"),
        ("IndexIgnore ..", "/d/?P=b*", "b.txt"),
        ("IndexIgnore .??* v?.gz", "/d/", "/ A.txt a%3c&amp;.png b.txt sub/ v10.gz"),
        ("", "/", "A.txt a%3c&amp;.png b.txt sub/ v10.gz v9.gz"),
    ];
    for (directives, target, expected) in table {
        assert_eq!(names(directives, target), expected, "{directives} {target}");
    }
}

#[test]
fn names_that_are_ignored_above_and_below() {
    let of = |folders: &[&str]| {
        let all = folders.iter().map(|lines| settings(lines));
        names_with(&all.reduce(|above, below| above.merge(&below)).unwrap(), "/d/")
    };
    let rows: [(&[&str], &str); 5] = [
        (&["IndexIgnore *.txt", "IndexIgnore v*"], "/ a%3c&amp;.png sub/"),
        (&["IndexIgnore *.txt", "IndexOptions None"], "/ a%3c&amp;.png sub/ v10.gz v9.gz"),
        (
            &["IndexIgnore *.txt", "IndexIgnoreReset On\nIndexIgnore v*"],
            "/ A.txt a%3c&amp;.png b.txt sub/",
        ),
        (&["IndexIgnore */b.txt */sub"], "/ A.txt a%3c&amp;.png v10.gz v9.gz"),
        (&["IndexIgnore ?.txt *10*"], "/ a%3c&amp;.png sub/ v9.gz"),
    ];
    for (folders, expected) in rows {
        assert_eq!(of(folders), expected, "{folders:?}");
    }
    // A file of rules is about its own folder.
    let context = crate::CompileContext::new("test", b"/srv/e/");
    let elsewhere = crate::compile(b"IndexIgnore *.txt", &context).settings;
    assert_eq!(names_with(&elsewhere, "/d/"), names("", "/d/"));
}

#[test]
fn a_client_asks_for_a_form_and_for_names() {
    let plain = names("", "/d/");
    for (query, is_fancy, is_table) in
        [("F=0", false, false), ("F=1", true, false), ("F=2", true, true), ("F=3", false, false)]
    {
        let page = page_of("", &format!("/d/?{query}"), &folder());
        assert_eq!(page.contains("<pre>"), is_fancy && !is_table, "{query}");
        assert_eq!(page.contains("<table>"), is_table, "{query}");
    }
    let fancy = "IndexOptions FancyIndexing";
    for (query, expected) in [
        ("P=%62*", "/ b.txt"),
        ("P=v%31%30*", "/ v10.gz"),
        ("P=%2f*", &plain),
        ("P=%00*", &plain),
        ("P=%zz*", &plain),
    ] {
        let found = names(fancy, &format!("/d/?{query}"));
        // The links of the columns repeat the pattern.
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn icons_have_the_sizes_of_the_closest_folder() {
    let of = |folders: &[&str]| {
        let all = folders.iter().map(|lines| settings(lines));
        let merged = all.reduce(|above, below| above.merge(&below)).unwrap();
        let config = merged.autoindex.unwrap().settled();
        (config.icon_width, config.icon_height, config.old_dates)
    };
    let sizes = "IndexOptions IconWidth=3 IconHeight=4";
    for (folders, expected) in [
        (&[sizes] as &[&str], (3, 4, false)),
        (&[sizes, "IndexOptions +XHTML"], (3, 4, false)),
        (&[sizes, "IndexOptions +IconWidth=5 +IconHeight=6"], (5, 6, false)),
        (&["IndexOptions IconWidth IconHeight"], (20, 22, false)),
        (&["IndexOptions -IconWidth -IconHeight"], (0, 0, false)),
        (&["IndexOptions UseOldDateFormat"], (0, 0, true)),
        (&["IndexOptions UseOldDateFormat", "IndexOptions +XHTML"], (0, 0, true)),
        (&["IndexOptions XHTML", "IndexOptions UseOldDateFormat"], (0, 0, true)),
    ] {
        assert_eq!(of(folders), expected, "{folders:?}");
    }
}

#[test]
fn icons() {
    let directives = "IndexOptions FancyIndexing\nAddIcon /dir ^^DIRECTORY^^\nAddIcon (UP,/up) ..\n\
                      AddIconByType /image image/*\nAddIconByEncoding /zip x-gzip\n\
                      DefaultIcon /other\nAddAlt text .txt";
    let page = page_of(directives, "/d/", &folder());
    for expected in [
        "<img src=\"/up\" alt=\"[UP]\"> <a href=\"/\"",
        "<img src=\"/dir\" alt=\"[DIR]\"> <a href=\"sub/\"",
        "<img src=\"/image\" alt=\"[   ]\"> <a href=\"a%3c",
        "<img src=\"/zip\" alt=\"[   ]\"> <a href=\"v9.gz\"",
        "<img src=\"/other\" alt=\"[text]\"> <a href=\"b.txt\"",
    ] {
        assert!(page.contains(expected), "{expected} in {page}");
    }
}

#[test]
fn above_and_below() {
    let listing =
        |header: Option<Insert>, readme: Option<Insert>| Listing { header, readme, ..folder() };
    let html = || Some(Insert::Html(b"<p>hello</p>\n".to_vec()));
    let text = || Some(Insert::Text(b"1 < 2 & 3".to_vec()));
    let with_html = page_of("", "/d/", &listing(html(), html()));
    assert!(with_html.starts_with(&format!("{START}<p>hello</p>\n<ul>")), "{with_html}");
    assert!(with_html.ends_with("</ul>\n<p>hello</p>\n</body></html>\n"), "{with_html}");
    let with_text = page_of("", "/d/", &listing(text(), text()));
    assert!(
        with_text.starts_with(&format!("{START}<pre>\n1 &lt; 2 &amp; 3</pre>\n<ul>")),
        "{with_text}"
    );
    let alone = page_of("IndexOptions SuppressHTMLPreamble", "/d/", &listing(html(), html()));
    assert!(
        alone.starts_with("<p>hello</p>\n<ul>") && alone.ends_with("<p>hello</p>\n"),
        "{alone}"
    );
    let nothing = page_of("", "/d/", &folder());
    assert!(nothing.ends_with("</ul>\n<address>here</address>\n</body></html>\n"), "{nothing}");
}

#[test]
fn inherited_options() {
    let of = |lines: &[&str]| {
        let merged = lines
            .iter()
            .fold(DirectiveSettings::default(), |above, lines| above.merge(&settings(lines)));
        let options = merged.autoindex.unwrap().settled().options;
        let has = |option: u32, letter: &'static str| if options.has(option) { letter } else { "" };
        [
            has(AutoindexOptions::FANCY, "F"),
            has(AutoindexOptions::TABLE, "T"),
            has(AutoindexOptions::XHTML, "X"),
        ]
        .concat()
    };
    let table: [(&[&str], &str); 16] = [
        (&["IndexOptions FancyIndexing XHTML"], "FX"),
        (&["IndexOptions +XHTML +XHTML"], "X"),
        (&["IndexOptions XHTML XHTML"], "X"),
        (&["IndexOptions +HTMLTable -XHTML"], "T"),
        (&["IndexOptions XHTML", "IndexOptions +XHTML"], "X"),
        (&["IndexOptions FancyIndexing", "IndexOptions +XHTML", "IndexOptions +XHTML"], "FX"),
        (&["IndexOptions FancyIndexing XHTML", "IndexOptions -XHTML", "IndexOptions -XHTML"], "F"),
        (&["IndexOptions FancyIndexing XHTML", "IndexOptions -XHTML -XHTML +HTMLTable"], "FT"),
        (&["IndexOptions +XHTML -XHTML"], ""),
        (&["IndexOptions +FancyIndexing"], "F"),
        (&["IndexOptions FancyIndexing +XHTML"], "F"),
        (&["IndexOptions FancyIndexing", "IndexOptions HTMLTable"], "T"),
        (&["IndexOptions FancyIndexing", "IndexOptions +HTMLTable"], "FT"),
        (&["IndexOptions FancyIndexing XHTML", "IndexOptions -XHTML +HTMLTable"], "FT"),
        (&["IndexOptions FancyIndexing", "IndexOptions None"], ""),
        (&["IndexOptions None", "IndexOptions +XHTML"], "X"),
    ];
    for (lines, expected) in table {
        assert_eq!(of(lines), expected, "{lines:?}");
    }
}

#[test]
fn the_media_type() {
    let of =
        |lines: &str| String::from_utf8(settings(lines).autoindex.unwrap().content_type()).unwrap();
    assert_eq!(of("IndexOptions FancyIndexing"), "text/html;charset=UTF-8");
    assert_eq!(
        of("IndexOptions Charset=ISO-8859-1 Type=application/xhtml+xml"),
        "application/xhtml+xml;charset=ISO-8859-1"
    );
}

#[test]
fn mistakes() {
    for line in [
        "IndexOptions NameWidth",
        "IndexOptions NameWidth=3",
        "IndexOptions -NameWidth=9",
        "IndexOptions DescriptionWidth=11",
        "IndexOptions +None",
        "IndexOptions None FancyIndexing",
        "IndexOptions Fancy",
        "IndexOptions Type",
        "IndexOrderDefault Up Name",
        "IndexOrderDefault Ascending Colour",
        "AddIcon (X,/y .txt",
    ] {
        assert!(try_settings(line).is_err(), "{line}");
    }
    for line in [
        "IndexOptions -NameWidth",
        "IndexOptions NameWidth=*",
        "IndexOptions NameWidth=0",
        "IndexOptions IconWidth",
    ] {
        assert!(try_settings(line).is_ok(), "{line}");
    }
}

#[test]
fn the_names_of_a_line_share_a_long_value() {
    let long = "x".repeat(4000);
    let config = |line: &str| settings(line).autoindex.unwrap();
    for line in [format!("AddIcon (a,{long}) a b"), format!("AddAlt {long} a b")] {
        let config = config(&line);
        for items in [&config.icons, &config.alts].into_iter().filter(|items| !items.is_empty()) {
            assert!(Arc::ptr_eq(&items[0].data, &items[1].data), "{line}");
            assert!(Arc::ptr_eq(&items[0].folder, &items[1].folder), "{line}");
        }
    }
    let described = config(&format!("AddDescription {long} a b")).descriptions.clone();
    assert!(Arc::ptr_eq(&described[0].text, &described[1].text));
    let ignored = config("IndexIgnore a b").ignored.clone();
    assert!(Arc::ptr_eq(&ignored[0].folder, &ignored[1].folder));
}

/// Each row repeats the texts of the directives that are for it.
#[test]
fn a_page_has_16_mib_of_rows_at_most() {
    let quotes = "\"".repeat(7_000);
    let directives = format!(
        "IndexOptions FancyIndexing DescriptionWidth=*\nAddIcon '{quotes}' *\n\
         AddDescription '{quotes}' *\n"
    );
    let settings = settings(&directives);
    let entries = (0..2_000).map(|number| entry(&format!("{number}.txt"), 1, 1)).collect();
    let listing = Listing { entries, ..Listing::default() };
    let request = request("/", "");
    let made = |steps: u64| {
        let budget = WorkBudget::new(steps);
        let mut tx = transaction(&request);
        tx.client = tx.client.within(&budget);
        let page = page(&tx, settings.autoindex.as_deref(), &mut Nowhere::default(), &listing);
        assert!(page.ends_with(b"</body></html>\n"));
        (page.len(), budget.used())
    };
    let (length, used) = made(50_000_000);
    assert!((16 << 20..17 << 20).contains(&length), "{length}");
    assert!(used >= length as u64 / 16, "{used}");
    let (length, _) = made(100_000);
    assert!(length < 2_000_000, "{length}");
}
