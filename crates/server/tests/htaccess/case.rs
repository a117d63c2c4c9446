//! Cases, as the files in `cases/` write them.
//!
//! ```text
//! @set probes                          requests with a name, for several cases
//! > /a.txt
//! > /dir/
//!
//! == [R={{status}}] sends {{status}}   a case begins; its title; {{…}} are replaced
//! @each status :: target               once for every row below; two @each give every pair
//!   301 :: /b.txt
//!   permanent :: http://other.example/
//! @override FileInfo Limit             AllowOverride; without it All
//! RewriteEngine On                     the text before the first `-- `: the root's .htaccess
//! RewriteRule ^x$ {{target}} [R={{status}}]
//! -- dir/.htaccess                     other files of the tree, with their content
//! Deny from all
//! -- dir/b.txt crlf                    the same with CR LF at the end of each line
//! -- link -> dir/a.txt                 a symbolic link
//! -- gone !                            a file of the standard tree that this one lacks
//! -- x.php sub/y.php php               scripts like those of the standard tree
//! -- x.css sub/y.js files              files that contain their own names
//! > /x                                 a GET
//! > POST /x HTTP/1.0 | Accept: a/b | = the body
//! > /private => 403                    and the beginning of a line that both answers must have
//! > @probes
//! ```

use std::path::Path;

/// Rules and requests that belong together.
#[derive(Clone, Debug)]
pub struct Case {
    /// The name of the case's file, without folder and ending.
    pub group: String,
    pub title: String,
    pub line: usize,
    pub tree: Tree,
    pub requests: Vec<Request>,
}

impl Case {
    /// Returns the case's name: `file: title`.
    pub fn name(&self) -> String {
        format!("{}: {}", self.group, self.title)
    }
}

/// The parts of a site besides the standard tree.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tree {
    /// The words of `AllowOverride`; none is `All`.
    pub overrides: String,
    pub entries: Vec<(String, Entry)>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entry {
    File(String),
    Link(String),
    /// One that says what PHP sees.
    Script,
    Folder,
    Removed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    pub target: String,
    pub version: String,
    pub fields: Vec<(String, String)>,
    pub body: String,
    /// The beginnings of lines that the answer must have.
    pub expected: Vec<String>,
    /// The text of the file between `> ` and ` => `.
    pub text: String,
}

/// Every case of a file.
pub fn read(path: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(path).unwrap();
    let group = path.file_stem().unwrap().to_str().unwrap();
    parse(group, &text)
}

fn parse(group: &str, text: &str) -> Vec<Case> {
    let lines: Vec<(usize, &str)> =
        text.lines().enumerate().map(|(at, line)| (at + 1, line)).collect();
    let is_head = |line: &str| line.starts_with("== ") || line.starts_with("@set ");
    let starts: Vec<usize> = (0..lines.len()).filter(|&at| is_head(lines[at].1)).collect();
    let mut sets: Vec<(String, Vec<String>)> = Vec::new();
    let mut cases: Vec<Case> = Vec::new();
    for (number, &start) in starts.iter().enumerate() {
        let end = starts.get(number + 1).copied().unwrap_or(lines.len());
        let block = &lines[start..end];
        let (line, head) = block[0];
        match head.strip_prefix("@set ") {
            Some(name) => {
                let requests = block[1..].iter().filter_map(|(_, line)| line.strip_prefix("> "));
                sets.push((name.trim().to_owned(), requests.map(str::to_owned).collect()));
            }
            None => cases.extend(Written::new(line, block, &sets).cases(group)),
        }
    }
    for (at, case) in cases.iter().enumerate() {
        let same = cases[..at].iter().find(|other| other.title == case.title);
        assert!(
            same.is_none(),
            "{group}.txt:{}: another case is called {:?}",
            case.line,
            case.title
        );
        assert!(!case.requests.is_empty(), "{group}.txt:{}: no requests", case.line);
    }
    cases
}

/// A case before its rows are put in.
struct Written<'t> {
    line: usize,
    title: &'t str,
    overrides: &'t str,
    tables: Vec<Table<'t>>,
    files: Vec<(&'t str, String)>,
    requests: Vec<String>,
}

/// The table of an `@each`: names, and rows of values.
struct Table<'t> {
    names: Vec<&'t str>,
    rows: Vec<Vec<&'t str>>,
}

impl<'t> Written<'t> {
    fn new(line: usize, block: &[(usize, &'t str)], sets: &[(String, Vec<String>)]) -> Written<'t> {
        let mut written = Written {
            line,
            title: block[0].1.trim_start_matches("== ").trim(),
            overrides: "",
            tables: Vec::new(),
            files: Vec::new(),
            requests: Vec::new(),
        };
        let mut in_table = false;
        for &(_, line) in &block[1..] {
            if let Some(names) = line.strip_prefix("@each ") {
                let names = names.split(" :: ").map(str::trim).collect();
                written.tables.push(Table { names, rows: Vec::new() });
                in_table = true;
            } else if in_table && line.starts_with("  ") {
                let row: Vec<_> = line.split(" :: ").map(str::trim).collect();
                let table = written.tables.last_mut().unwrap();
                assert_eq!(row.len(), table.names.len(), "{line:?} below {:?}", table.names);
                table.rows.push(row);
            } else if let Some(overrides) = line.strip_prefix("@override ") {
                written.overrides = overrides;
                in_table = false;
            } else if let Some(set) = line.strip_prefix("> @") {
                let found = sets.iter().find(|(name, _)| name == set.trim());
                let (_, requests) = found.unwrap_or_else(|| panic!("no @set is called {set:?}"));
                written.requests.extend(requests.iter().cloned());
            } else if let Some(request) = line.strip_prefix("> ") {
                written.requests.push(request.to_owned());
            } else if let Some(name) = line.strip_prefix("-- ") {
                written.files.push((name, String::new()));
            } else {
                in_table = false;
                written.content(line);
            }
        }
        written
    }

    fn content(&mut self, line: &str) {
        if self.files.is_empty() && line.is_empty() || !self.requests.is_empty() {
            assert!(line.is_empty() || line.starts_with('#'), "{line:?} is behind the requests");
            return;
        }
        if self.files.is_empty() {
            self.files.push((".htaccess", String::new()));
        }
        let (_, content) = self.files.last_mut().unwrap();
        content.push_str(line);
        content.push('\n');
    }

    /// A case for every combination of rows.
    fn cases(&self, group: &str) -> Vec<Case> {
        let mut combinations: Vec<Vec<(&str, &str)>> = vec![Vec::new()];
        for table in &self.tables {
            let with = |values: &Vec<(&'t str, &'t str)>, row: &Vec<&'t str>| {
                let names = table.names.iter().copied();
                values.iter().copied().chain(names.zip(row.iter().copied())).collect::<Vec<_>>()
            };
            combinations = combinations
                .iter()
                .flat_map(|values| table.rows.iter().map(move |row| with(values, row)))
                .collect();
        }
        combinations.iter().map(|values| self.case(group, values)).collect()
    }

    fn case(&self, group: &str, values: &[(&str, &str)]) -> Case {
        let fill = |text: &str| {
            let mut text = text.to_owned();
            for (name, value) in values {
                text = text.replace(&format!("{{{{{name}}}}}"), value);
            }
            text
        };
        let mut title = fill(self.title);
        let unnamed = values
            .iter()
            .filter(|(name, _)| !self.title.contains(&format!("{{{{{name}}}}}")));
        for (number, (_, value)) in unnamed.enumerate() {
            title += if number == 0 { ": " } else { ", " };
            title += value;
        }
        let written = self.files.iter();
        let entries = written
            .flat_map(|(name, content)| entries(&fill(name), fill(content)))
            .collect();
        Case {
            group: group.to_owned(),
            title,
            line: self.line,
            tree: Tree { overrides: fill(self.overrides), entries },
            requests: self.requests.iter().map(|text| Request::parse(&fill(text))).collect(),
        }
    }
}

/// Parses the text behind a `-- `, and the lines below.
fn entries(name: &str, content: String) -> Vec<(String, Entry)> {
    let each = |names: &str, entry: fn(&str) -> Entry| {
        names.split(' ').map(|name| (name.to_owned(), entry(name))).collect::<Vec<_>>()
    };
    if let Some(names) = name.strip_suffix(" php") {
        return each(names, |_| Entry::Script);
    } else if let Some(names) = name.strip_suffix(" files") {
        return each(names, |name| Entry::File(format!("{name}\n")));
    }
    vec![if let Some((name, target)) = name.split_once(" -> ") {
        (name.to_owned(), Entry::Link(target.to_owned()))
    } else if let Some(name) = name.strip_suffix(" crlf") {
        (name.to_owned(), Entry::File(content.replace('\n', "\r\n")))
    } else if let Some(name) = name.strip_suffix(" !") {
        (name.to_owned(), Entry::Removed)
    } else if let Some(name) = name.strip_suffix('/') {
        (name.to_owned(), Entry::Folder)
    } else {
        (name.to_owned(), Entry::File(content))
    }]
}

impl Request {
    /// Parses the text behind a `> `.
    pub fn parse(text: &str) -> Request {
        let (text, expected) = text.split_once(" => ").unwrap_or((text, ""));
        let mut parts = text.split(" | ");
        let words: Vec<&str> = parts.next().unwrap_or_default().split(' ').collect();
        let (method, target, version) = match words[..] {
            [target] => ("GET", target, "HTTP/1.1"),
            [target, version] if version.starts_with("HTTP/") => ("GET", target, version),
            [method, target] => (method, target, "HTTP/1.1"),
            [method, target, version] => (method, target, version),
            _ => panic!("not a request: {text:?}"),
        };
        let mut request = Request {
            method: method.to_owned(),
            target: target.to_owned(),
            version: version.to_owned(),
            fields: Vec::new(),
            body: String::new(),
            expected: expected
                .split(" ; ")
                .filter(|line| !line.is_empty())
                .map(str::to_owned)
                .collect(),
            text: text.to_owned(),
        };
        for part in parts {
            if let Some(body) = part.strip_prefix("= ") {
                request.body = body.to_owned();
                continue;
            }
            let (name, value) =
                part.split_once(':').unwrap_or_else(|| panic!("no field: {part:?}"));
            request.fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        request
    }
}

#[test]
fn a_file_of_cases_is_read() {
    let text = "@set two\n> /a\n> POST /b | X: y | = body\n\n== one {{flag}}\n\
        @each flag\n  L\n  R=301\n\
        Rule x [{{flag}}]\n\n-- dir/x -> ../y\n-- empty/\n> @two\n> /{{flag}} HTTP/1.0\n";
    let cases = parse("g", text);
    assert_eq!(cases.len(), 2);
    assert_eq!((cases[1].title.as_str(), cases[1].line), ("one R=301", 5));
    let entries = &cases[1].tree.entries;
    assert_eq!(entries[0], (".htaccess".into(), Entry::File("Rule x [R=301]\n\n".into())));
    assert_eq!(entries[1], ("dir/x".into(), Entry::Link("../y".into())));
    assert_eq!(entries[2], ("empty".into(), Entry::Folder));
    let requests: Vec<_> = cases[0]
        .requests
        .iter()
        .map(|r| (&*r.method, &*r.target, &*r.version))
        .collect();
    assert_eq!(
        requests,
        [("GET", "/a", "HTTP/1.1"), ("POST", "/b", "HTTP/1.1"), ("GET", "/L", "HTTP/1.0")]
    );
    assert_eq!(
        (&*cases[0].requests[1].body, &cases[0].requests[1].fields),
        ("body", &vec![("X".into(), "y".into())])
    );
}
