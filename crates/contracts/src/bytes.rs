//! Sizes as people write them: `512MiB`.

use serde::{Serialize, Serializer};

const UNITS: [(&str, u64); 4] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
];

/// Writes a size in the largest unit that keeps it whole, or rounded to a tenth of a unit.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let Some((unit, size)) = UNITS.into_iter().find(|(_, size)| bytes >= *size) else {
        return format!("{bytes} bytes");
    };
    let tenths = u128::from(bytes) * 10 / u128::from(size);
    match UNITS
        .into_iter()
        .find(|(_, size)| bytes >= *size && bytes.is_multiple_of(*size))
    {
        Some((whole, size)) if bytes / size < 10_000 => format!("{}{whole}", bytes / size),
        _ if tenths % 10 == 0 => format!("{}{unit}", tenths / 10),
        _ => format!("{}.{}{unit}", tenths / 10, tenths % 10),
    }
}

#[expect(clippy::ref_option, reason = "serde hands a reference")]
pub(crate) fn as_optional_text<S: Serializer>(
    bytes: &Option<u64>,
    to: S,
) -> Result<S::Ok, S::Error> {
    bytes.map(format_bytes).serialize(to)
}

#[cfg(test)]
mod tests {
    use super::format_bytes;

    #[test]
    fn sizes_are_written_as_people_write_them() {
        for (bytes, text) in [
            (0, "0 bytes"),
            (1_023, "1023 bytes"),
            (1_024, "1KiB"),
            (1_536, "1.5KiB"),
            (512 << 20, "512MiB"),
            (1_536 << 20, "1536MiB"),
            (2 << 30, "2GiB"),
            ((2 << 30) + 1, "2GiB"),
            ((2 << 30) + (1 << 29) + 7, "2.5GiB"),
            (u64::MAX, "16777215.9TiB"),
        ] {
            assert_eq!(format_bytes(bytes), text, "{bytes}");
        }
    }
}
