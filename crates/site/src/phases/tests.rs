mod access;
mod conditions;
mod endless;
mod environment;
mod errors;
mod folders;
mod handlers;
mod listings;
mod lists;
mod rewriting;
mod site_rules;
pub(crate) mod tree;
mod work;

use tree::Tree;

/// Asserts the resolution of each target.
fn check(tree: &mut Tree, rows: &[(&str, &str)]) {
    for (target, expected) in rows {
        assert_eq!(&tree.get(target), expected, "GET {target}");
    }
}
