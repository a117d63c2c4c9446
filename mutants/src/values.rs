//! The values that a function returns in place of its own.

use syn::{GenericArgument, PathArguments, ReturnType, Type, TypePath};

/// Returns values of a return type as code. Not each of them compiles. None for types of which no
/// value can be written: `impl Trait`, `dyn Trait`, `!`.
pub fn of_return(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".into()],
        ReturnType::Type(_, returned) => of(returned),
    }
}

fn of(kind: &Type) -> Vec<String> {
    match kind {
        Type::Tuple(tuple) if tuple.elems.is_empty() => vec!["()".into()],
        Type::Tuple(tuple) => of_tuple(tuple.elems.iter().map(of)),
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => words(&["\"\"", "\"xyzzy\""]),
            Type::Slice(slice) => {
                let mut values = words(&["Vec::leak(vec![])"]);
                values.extend(
                    of(&slice.elem).iter().map(|value| format!("Vec::leak(vec![{value}])")),
                );
                values
            }
            inner => wrapped("Box::leak(Box::new(", inner, "))"),
        },
        Type::Path(path) => of_path(path),
        Type::ImplTrait(_) | Type::TraitObject(_) | Type::Never(_) | Type::Slice(_) => vec![],
        _ => words(&["Default::default()"]),
    }
}

fn of_path(path: &TypePath) -> Vec<String> {
    let Some(last) = path.path.segments.last() else {
        return vec![];
    };
    let argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(inner) => Some(inner),
                _ => None,
            })
        }
        _ => None,
    };
    match (last.ident.to_string().as_str(), argument) {
        ("bool", _) => words(&["true", "false"]),
        ("u8" | "u16" | "u32" | "u64" | "u128" | "usize", _) => words(&["0", "1"]),
        ("i8" | "i16" | "i32" | "i64" | "i128" | "isize", _) => words(&["0", "1", "-1"]),
        ("f32" | "f64", _) => words(&["0.0", "1.0"]),
        ("String", _) => words(&["String::new()", "String::from(\"xyzzy\")"]),
        ("Option", Some(inner)) => {
            let mut values = words(&["None"]);
            values.extend(wrapped("Some(", inner, ")"));
            values
        }
        ("Result", Some(inner)) => wrapped("Ok(", inner, ")"),
        ("Result", None) => words(&["Ok(Default::default())"]),
        ("Vec", Some(inner)) => {
            let mut values = words(&["vec![]"]);
            values.extend(wrapped("vec![", inner, "]"));
            values
        }
        ("Poll", Some(inner)) => {
            let mut values = words(&["std::task::Poll::Pending"]);
            values.extend(wrapped("std::task::Poll::Ready(", inner, ")"));
            values
        }
        (outer @ ("Box" | "Arc" | "Rc"), Some(inner)) => {
            wrapped(&format!("{outer}::new("), inner, ")")
        }
        ("Cow", Some(Type::Path(path))) if path.path.is_ident("str") => {
            words(&["\"\".into()", "\"xyzzy\".into()"])
        }
        _ => words(&["Default::default()"]),
    }
}

fn wrapped(before: &str, inner: &Type, after: &str) -> Vec<String> {
    of(inner).iter().map(|value| format!("{before}{value}{after}")).collect()
}

/// Each value of a part with the first values of the other parts.
fn of_tuple(parts: impl Iterator<Item = Vec<String>>) -> Vec<String> {
    let parts: Vec<_> = parts.collect();
    let Some(first) = parts.iter().map(|values| values.first()).collect::<Option<Vec<_>>>() else {
        return vec![];
    };
    let mut tuples = Vec::new();
    for (position, values) in parts.iter().enumerate() {
        for value in values.iter().skip(usize::from(position > 0)) {
            let mut tuple = first.clone();
            tuple[position] = value;
            let list: Vec<&str> = tuple.iter().map(|value| value.as_str()).collect();
            tuples.push(format!("({},)", list.join(", ")));
        }
    }
    tuples
}

fn words(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| value.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_their_types() {
        for (kind, values) in [
            (
                "io::Result<Option<bool>>",
                &["Ok(None)", "Ok(Some(true))", "Ok(Some(false))"] as &[_],
            ),
            ("(u8, &'a str)", &["(0, \"\",)", "(1, \"\",)", "(0, \"xyzzy\",)"]),
            ("Vec<Slot>", &["vec![]", "vec![Default::default()]"]),
            ("&[u8]", &["Vec::leak(vec![])", "Vec::leak(vec![0])", "Vec::leak(vec![1])"]),
            ("fmt::Result", &["Ok(Default::default())"]),
            ("Option<impl Iterator>", &["None"]),
            ("!", &[]),
        ] {
            assert_eq!(of(&syn::parse_str(kind).unwrap()), values, "{kind}");
        }
    }
}
