//! The file that a run is kept in.

use std::path::Path;

use crate::loads::Wrong;
use crate::record::Run;

/// Writes `run.json` into that folder, completely or not at all.
///
/// # Errors
///
/// The folder or the file cannot be written.
pub fn write_run(folder: &Path, run: &Run) -> Result<(), Wrong> {
    std::fs::create_dir_all(folder)?;
    let text = as_lines(run).map_err(|error| Wrong(error.to_string()))?;
    let (whole, part) = (folder.join("run.json"), folder.join("run.json.part"));
    let written = std::fs::write(&part, text + "\n").and_then(|()| std::fs::rename(&part, &whole));
    written.map_err(|error| Wrong(format!("cannot write {}: {error}", whole.display())))
}

/// Encodes the run as JSON with one line for each part and for each element of a list, so that two
/// runs can be compared with a text tool.
fn as_lines(run: &Run) -> serde_json::Result<String> {
    let mut parts = Vec::new();
    if let serde_json::Value::Object(fields) = serde_json::to_value(run)? {
        for (name, value) in fields {
            let value = match value {
                serde_json::Value::Array(items) if !items.is_empty() => {
                    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
                    format!("[\n{}\n]", items.join(",\n"))
                }
                other => other.to_string(),
            };
            parts.push(format!("{}:{value}", serde_json::Value::from(name)));
        }
    }
    Ok(format!("{{\n{}\n}}", parts.join(",\n")))
}
