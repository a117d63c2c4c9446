//! Scratch.
use howdah_htaccess::{Surroundings, compile::compile_asking};
fn main() {
    for path in std::env::args().skip(1) {
        let source = std::fs::read(&path).unwrap();
        let c = compile_asking(
            &source,
            &Surroundings::new(path.as_str(), b"/site/"),
            &mut |path| std::path::Path::new(&*String::from_utf8_lossy(path)).exists(),
        );
        match &c.mistake {
            None => println!("OK"),
            Some(m) => println!("{}", m.message.replace('\n', "\\n")),
        }
    }
}
