//! Which tier this machine gives, facet by facet, and why not a higher one.

use serde_json::Value;

use super::machine::active_modules;

pub(super) fn print(launch: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    println!(
        "   tier {} on Linux {}, Landlock ABI {}",
        text(&launch["tier"]),
        text(&launch["kernel_release"]),
        launch["landlock_abi"]
    );
    println!("   each layer was attacked when the warden started, without it and behind it:");
    let mut told = Vec::new();
    for facet in ["fs", "net", "exec", "ipc", "resources"] {
        let found = &launch["enforcement"][facet];
        let layers: Vec<String> = found["layers"]
            .as_array()
            .into_iter()
            .flatten()
            .map(text)
            .collect();
        if layers.is_empty() {
            println!("   {facet:<10} NOT ENFORCED");
        } else {
            let layers = layers.join(", ");
            println!("   {facet:<10} {layers}: {}", text(&found["self_test"]));
        }
        for missing in found["missing"].as_array().into_iter().flatten() {
            let line = format!("without {}: {}", text(&missing["layer"]), text(&missing["why"]));
            // Of several facets alike.
            if !told.contains(&line) {
                println!("   {:<10} - {line}", "");
                told.push(line);
            }
        }
    }
    println!("   {}", bpf_lsm());
}

/// What there is to say about BPF LSM on this kernel.
fn bpf_lsm() -> String {
    match active_modules() {
        Some(list) if list.split(',').any(|name| name == "bpf") => {
            format!("BPF LSM: in this kernel's list of active modules ({list})")
        }
        Some(list) => format!("BPF LSM: not in this kernel's list of active modules ({list})"),
        None => "BPF LSM: not known, this kernel shows no list of active modules".to_owned(),
    }
}
