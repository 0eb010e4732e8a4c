//! The bill of materials of the program, in CycloneDX 1.5: each crate that it is built from, with licence and checksum. What only runs
//! while it is built has the scope `excluded`, which is how the format says that.

use super::crates::{Crate, Id};
use super::release::{PACKAGE, Release};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// The same text for the same commit: its time is the commit's, its serial number follows from the rest.
pub(super) fn text(release: &Release, crates: &[Crate]) -> Result<String, String> {
    let own = crates.iter().find(|it| it.id.0 == PACKAGE);
    let own = own.ok_or_else(|| format!("the program has no {PACKAGE}"))?;
    let mut program = component(own, "application");
    program["properties"] = json!([
        { "name": "counterstep:commit", "value": release.commit },
        { "name": "counterstep:target", "value": release.target },
    ]);
    let others = crates.iter().filter(|it| it.id != own.id);
    let mut bill = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.time,
            "tools": { "components": [{ "type": "application", "name": "cargo xtask dist" }] },
            "component": program,
        },
        "components": others.map(|it| component(it, "library")).collect::<Vec<_>>(),
        "dependencies": crates.iter().map(dependencies).collect::<Vec<_>>(),
    });
    bill["serialNumber"] = serial(&bill.to_string()).into();
    serde_json::to_string_pretty(&bill)
        .map(|text| text + "\n")
        .map_err(|error| format!("the bill of materials is no JSON: {error}"))
}

fn component(one: &Crate, kind: &str) -> Value {
    let (name, version) = &one.id;
    let mut component = Map::new();
    let scope = if one.is_linked {
        "required"
    } else {
        "excluded"
    };
    for (key, value) in [
        ("type", kind),
        ("name", name),
        ("version", version),
        ("scope", scope),
        ("purl", &purl(&one.id)),
        ("bom-ref", &purl(&one.id)),
    ] {
        component.insert(key.to_owned(), value.into());
    }
    if let Some(licence) = one.licence() {
        component.insert("licenses".to_owned(), json!([{ "expression": licence }]));
    } else if one.manifest.license_file.is_some() {
        let name = "of its own, see THIRD-PARTY-LICENSES";
        component.insert(
            "licenses".to_owned(),
            json!([{ "license": { "name": name } }]),
        );
    }
    if let Some(checksum) = &one.checksum {
        component.insert(
            "hashes".to_owned(),
            json!([{ "alg": "SHA-256", "content": checksum }]),
        );
    }
    if let Some(repository) = &one.manifest.repository {
        let sources = json!([{ "type": "vcs", "url": repository }]);
        component.insert("externalReferences".to_owned(), sources);
    }
    component.into()
}

fn dependencies(one: &Crate) -> Value {
    json!({ "ref": purl(&one.id), "dependsOn": one.needs.iter().map(purl).collect::<Vec<_>>() })
}

/// The address of a crate on its registry. A `+` stands for a space in it.
fn purl((name, version): &Id) -> String {
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// A UUID of version 8, which is for those that are computed.
fn serial(text: &str) -> String {
    let mut bytes = Sha256::digest(text.as_bytes());
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|it| format!("{it:02x}"))
            .collect::<String>()
    };
    let parts = [
        &bytes[..4],
        &bytes[4..6],
        &bytes[6..8],
        &bytes[8..10],
        &bytes[10..16],
    ];
    format!("urn:uuid:{}", parts.map(hex).join("-"))
}
