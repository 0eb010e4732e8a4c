//! Pictures in the simplest format there is, PPM with three bytes a pixel, in the place of a library
//! for all of them.

use counterstep::prelude::*;

/// No picture of a client takes more memory than this many pixels.
const MOST_PIXELS: u64 = 64 << 20;

/// Its head has no more than this.
const MOST_HEAD: u64 = 1 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    pub width: u32,
    pub height: u32,
    /// Row by row.
    pub pixels: Vec<[u8; 3]>,
}

impl Picture {
    /// Refuses what is too large by its size alone, before a byte of it is in memory.
    pub fn fits(size_bytes: u64) -> StepResult<()> {
        if size_bytes > MOST_HEAD + 3 * MOST_PIXELS {
            return Err(StepError::permanent(format_args!(
                "invalid picture: {size_bytes} bytes are too many; expected at most {MOST_PIXELS} pixels"
            )));
        }
        Ok(())
    }

    /// Reads `P6`, width, height, `255` and the pixels. What cannot be read will never be.
    pub fn read(bytes: &[u8]) -> StepResult<Self> {
        let refused = |why: &str| {
            StepError::permanent(format_args!("invalid picture: {why}; expected a PPM (P6)"))
        };
        let mut rest = bytes;
        let mut word = || {
            let start = rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
            let length = rest[start..].iter().position(u8::is_ascii_whitespace)?;
            let word = std::str::from_utf8(&rest[start..start + length]).ok()?;
            rest = &rest[start + length + 1..];
            Some(word)
        };
        if word() != Some("P6") {
            return Err(refused("it does not begin with P6"));
        }
        let mut number = || word()?.parse::<u32>().ok();
        let (Some(width), Some(height), Some(255)) = (number(), number(), number()) else {
            return Err(refused("its head cannot be read"));
        };
        let count = u64::from(width) * u64::from(height);
        if count == 0 || count > MOST_PIXELS {
            return Err(refused("it has no pixels, or too many"));
        }
        let (pixels, []) = rest.as_chunks::<3>() else {
            return Err(refused("its last pixel is not whole"));
        };
        if pixels.len() as u64 != count {
            return Err(refused("it has more or fewer pixels than its head says"));
        }
        Ok(Self {
            width,
            height,
            pixels: pixels.to_vec(),
        })
    }

    /// So that its longer side has this many pixels; a smaller one stays as it is.
    pub fn scaled_to(&self, longer_side: u32) -> Self {
        let longest = self.width.max(self.height);
        if longest <= longer_side {
            return self.clone();
        }
        let scaled = |side: u32| {
            let side = u64::from(side) * u64::from(longer_side) / u64::from(longest);
            (side as u32).max(1)
        };
        let (width, height) = (scaled(self.width), scaled(self.height));
        let pixel = |x: u32, y: u32| {
            let x = u64::from(x) * u64::from(self.width) / u64::from(width);
            let y = u64::from(y) * u64::from(self.height) / u64::from(height);
            self.pixels[(y * u64::from(self.width) + x) as usize]
        };
        let rows = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
        Self {
            width,
            height,
            pixels: rows.map(|(x, y)| pixel(x, y)).collect(),
        }
    }

    /// As [`read`](Self::read) reads it.
    pub fn write(&self) -> Vec<u8> {
        let mut bytes = format!("P6\n{} {}\n255\n", self.width, self.height).into_bytes();
        bytes.extend(self.pixels.iter().flatten());
        bytes
    }
}
