//! The heading and the rows of a listing.

use super::{Listing, entry, folder, one_row, page_of};

#[test]
fn a_column_is_sorted_the_other_way_the_next_time() {
    let fancy = "IndexOptions FancyIndexing";
    for (query, expected) in [
        ("", ["C=N;O=D", "C=M;O=A", "C=S;O=A", "C=D;O=A"]),
        ("C=N;O=D", ["C=N;O=A", "C=M;O=A", "C=S;O=A", "C=D;O=A"]),
        ("C=S", ["C=N;O=A", "C=M;O=A", "C=S;O=D", "C=D;O=A"]),
        ("C=M;O=A", ["C=N;O=A", "C=M;O=D", "C=S;O=A", "C=D;O=A"]),
        ("C=D;O=D", ["C=N;O=A", "C=M;O=A", "C=S;O=A", "C=D;O=A"]),
        (
            "V=1;F=1;P=*.txt",
            [
                "C=N;O=D;F=1;V=1;P=*.txt",
                "C=M;O=A;F=1;V=1;P=*.txt",
                "C=S;O=A;F=1;V=1;P=*.txt",
                "C=D;O=A;F=1;V=1;P=*.txt",
            ],
        ),
        ("V=0;P=", ["C=N;O=D;V=0", "C=M;O=A;V=0", "C=S;O=A;V=0", "C=D;O=A;V=0"]),
    ] {
        let page = page_of(fancy, &format!("/d/?{query}"), &folder());
        let links = page.split("<a href=\"?").skip(1);
        let links: Vec<_> = links.filter_map(|link| link.split('"').next()).collect();
        assert_eq!(links, expected, "{query}");
    }
}

/// The files of a listing of these, in order.
fn sorted(directives: &str, target: &str, names: &[&str]) -> String {
    let listing = Listing {
        entries: names.iter().map(|name| entry(name, name.len() as u64, 1)).collect(),
        ..Listing::default()
    };
    let page = page_of(directives, target, &listing);
    let links = page.split("<a href=\"").skip(1).filter_map(|link| link.split('"').next());
    links.filter(|link| !link.starts_with('?')).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_plain_list_is_in_the_order_of_names() {
    let names = &["long.txt", "a.txt", "sub"];
    for (options, query) in [("None", "C=S"), ("FoldersFirst", ""), ("None", "C=M;O=A")] {
        let found = sorted(&format!("IndexOptions {options}"), &format!("/?{query}"), names);
        assert_eq!(found, "a.txt long.txt sub/", "{options} {query}");
    }
}

#[test]
fn versions_are_in_the_order_of_their_numbers() {
    let of = |options: &str, rest: &str, names: &[&str]| {
        sorted(&format!("IndexOptions FancyIndexing {options}\n{rest}"), "/", names)
    };
    assert_eq!(of("", "", &["a10.txt", "A2.txt", "a9.txt"]), "A2.txt a10.txt a9.txt");
    assert_eq!(of("VersionSort", "", &["a10.txt", "B2.txt", "a9.txt"]), "B2.txt a9.txt a10.txt");
    let caseless = of("VersionSort IgnoreCase", "", &["a10.txt", "B2.txt", "a9.txt"]);
    assert_eq!(caseless, "a9.txt a10.txt B2.txt");
    let described = "AddDescription v10 a.txt\nAddDescription v9 b.txt\n\
                     IndexOrderDefault Ascending Description";
    assert_eq!(of("", described, &["a.txt", "b.txt"]), "a.txt b.txt");
    assert_eq!(of("VersionSort", described, &["a.txt", "b.txt"]), "b.txt a.txt");
}

#[test]
fn a_pattern_names_a_leading_dot() {
    let names = &[".a.txt", "b.txt"];
    assert_eq!(sorted("", "/?P=*.txt", names), "b.txt");
    assert_eq!(sorted("", "/?P=.*", names), ".a.txt");
}

#[test]
fn names_are_cut_to_their_column() {
    let listing = Listing {
        entries: ["abcde", "abcdef"].map(|name| entry(name, 1, 1)).to_vec(),
        ..Listing::default()
    };
    for (options, expected) in [
        ("FancyIndexing NameWidth=7", [">abcde/</a>  2020", ">abcdef/</a> 2020"]),
        ("FancyIndexing NameWidth=6", [">abcde/</a> 2020", ">abc..&gt;</a> 2020"]),
        ("FancyIndexing NameWidth=0", [">abcde/</a> 2020", ">abcdef/</a> 2020"]),
        ("FancyIndexing NameWidth=*", [">abcde/</a>                  2020", ">abcdef/</a>  "]),
        ("HTMLTable NameWidth=6", [">abcde/</a></td>", ">abc..&gt;</a></td>"]),
        ("HTMLTable NameWidth=*", [">abcde/</a></td>", ">abcdef/</a></td>"]),
    ] {
        let page = page_of(&format!("IndexOptions {options}"), "/", &listing);
        for text in expected {
            assert!(page.contains(text), "{options}: {text} in {page}");
        }
    }
}

#[test]
fn the_heading_has_the_icon_of_blanks() {
    let icon = "AddIcon /blank ^^BLANKICON^^\nIndexOptions";
    for (options, expected) in [
        ("FancyIndexing", "<pre><img src=\"/blank\" alt=\"Icon \"> <a href=\"?C=N"),
        ("FancyIndexing SuppressIcon", "<pre><a href=\"?C=N"),
        (
            "HTMLTable",
            "<tr><th valign=\"top\"><img src=\"/blank\" alt=\"[ICO]\"></th><th><a href=\"?C=N",
        ),
        ("HTMLTable SuppressIcon", "<tr><th><a href=\"?C=N"),
    ] {
        let page = page_of(&format!("{icon} {options}"), "/d/", &folder());
        assert!(page.contains(expected), "{options}: {page}");
    }
}

#[test]
fn rows_of_a_table_have_classes_in_turn() {
    let listing = Listing {
        entries: ["a.txt", "b.png", "c.txt"].map(|name| entry(name, 1, 1)).to_vec(),
        ..Listing::default()
    };
    let classes = |directives: &str| {
        let page = page_of(directives, "/", &listing);
        let rows = page.split("<tr").skip(3).take(3);
        let rows = rows.filter_map(|row| Some(row.split_once('>')?.0.to_owned()));
        rows.collect::<Vec<_>>().join("|")
    };
    let sheet = "IndexStyleSheet /s.css\nAddAlt TXT .txt\nIndexOptions HTMLTable";
    assert_eq!(classes(sheet), r#" class="even"| class="odd"| class="even""#);
    let with_alt = format!("{sheet} AddAltClass");
    assert_eq!(classes(&with_alt), r#" class="even-txt"| class="odd"| class="even-txt""#);
    assert_eq!(classes("AddAlt TXT .txt\nIndexOptions HTMLTable AddAltClass"), "||");
}

#[test]
fn icons_of_types_and_names() {
    let other = "IndexOptions FancyIndexing\nDefaultIcon /other";
    let mut listing = folder();
    listing.entries.push(entry("A-DIRECTORY.txt", 1, 1));
    for (directives, name, expected) in [
        ("AddIcon /dir **DIRECTORY**", "sub/", "/dir"),
        ("AddIcon /dir **DIRECTORY**", "A-DIRECTORY.txt", "/other"),
        ("AddIconByType /any *", "b.txt", "/other"),
        ("AddIconByType /text text/*", "a%3c", "/other"),
        ("AddIconByType /image IMAGE/*", "a%3c", "/image"),
        ("AddIconByEncoding /zip X-GZIP", "v9.gz", "/zip"),
        ("AddIcon /any ?.txt", "b.txt", "/other"),
        ("AddIcon /any *?.txt", "b.txt", "/any"),
    ] {
        let page = page_of(&format!("{other}\n{directives}"), "/d/", &listing);
        let row = page.lines().find(|row| row.contains(&format!("href=\"{name}"))).unwrap();
        assert!(row.contains(&format!("<img src=\"{expected}\"")), "{directives}: {row}");
    }
    let page = page_of("IndexOptions FancyIndexing", "/d/?F=1", &folder());
    assert!(page.contains("<pre>"), "{page}");
}

#[test]
fn icons_are_links_in_both_forms() {
    for (options, expected) in [
        (
            "FancyIndexing IconsAreLinks",
            "<a href=\"a.txt\"><img src=\"/i\" alt=\"[   ]\"></a> <a href=\"a.txt\">",
        ),
        ("FancyIndexing", "\n<img src=\"/i\" alt=\"[   ]\"> <a href=\"a.txt\">"),
        (
            "HTMLTable IconsAreLinks",
            "<a href=\"a.txt\"><img src=\"/i\" alt=\"[   ]\"></a></td><td><a href=\"a.txt\">",
        ),
        (
            "HTMLTable",
            "<td valign=\"top\"><img src=\"/i\" alt=\"[   ]\"></td><td><a href=\"a.txt\">",
        ),
    ] {
        let page = one_row(options, "x");
        assert!(page.contains(expected), "{options}: {page}");
    }
}

#[test]
fn a_table_has_as_many_columns_as_its_rule() {
    for (options, columns) in [
        ("", 5),
        ("SuppressIcon", 4),
        ("SuppressSize", 4),
        ("SuppressIcon SuppressLastModified SuppressSize SuppressDescription", 1),
    ] {
        let page = one_row(&format!("HTMLTable {options}"), "x");
        let rule = format!("<tr><th colspan=\"{columns}\"><hr></th></tr>\n");
        assert_eq!(page.matches(&rule).count(), 2, "{options}: {page}");
        assert_eq!(page.matches("<th>").count() + page.matches("<th v").count(), columns);
        assert_eq!(page.matches("<td").count(), 2 * columns, "{options}: {page}");
    }
}

#[test]
fn a_description_in_a_table_is_cut_as_well() {
    let long = "x".repeat(40);
    for (options, expected) in [
        ("HTMLTable", format!("<td>{}></td></tr>", "x".repeat(22))),
        ("HTMLTable DescriptionWidth=12", format!("<td>{}></td></tr>", "x".repeat(11))),
        ("HTMLTable DescriptionWidth=*", format!("<td>{long}</td></tr>")),
        ("HTMLTable DescriptionWidth=40", format!("<td>{long}</td></tr>")),
    ] {
        let page = one_row(options, &long);
        assert!(page.contains(&expected), "{options}: {page}");
    }
    let unclosed = format!("x<b{}", "y".repeat(40));
    assert!(one_row("FancyIndexing", &unclosed).contains(&unclosed));
}

#[test]
fn xhtml_has_its_own_beginning() {
    let page = one_row("FancyIndexing XHTML", "x");
    assert!(page.starts_with("<!DOCTYPE html PUBLIC \"-//W3C//DTD XHTML 1.0 "), "{page}");
    let insert = "IndexHeadInsert \"<meta name=a>\"\nIndexStyleSheet /s.css";
    let page = page_of(insert, "/d/", &folder());
    let head = "</title>\n  <link rel=\"stylesheet\" href=\"/s.css\" type=\"text/css\">\n\
                <meta name=a> </head>";
    assert!(page.contains(head), "{page}");
}
