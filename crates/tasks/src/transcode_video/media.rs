//! What is asked of ffmpeg and ffprobe, as lists of arguments. None of them holds a text that a
//! client has sent: names of files are the engine's, and all else is chosen here.

use super::TranscodeVideoRequest;
use super::tool::{self, Tool};
use counterstep_steps::schemars::{self, JsonSchema};
use counterstep_steps::{FileName, ScratchFile, StepContext, StepError, StepResult, StoredFile};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The sizes that are rendered, by the lines of the shorter side.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Size {
    /// 480 lines.
    #[serde(rename = "480p")]
    P480,
    /// 720 lines.
    #[serde(rename = "720p")]
    P720,
    /// 1080 lines.
    #[serde(rename = "1080p")]
    P1080,
    /// 2160 lines, which is 4K.
    #[serde(rename = "2160p")]
    P2160,
}

impl Size {
    /// Lines of the shorter side.
    #[must_use]
    pub const fn lines(self) -> u32 {
        match self {
            Self::P480 => 480,
            Self::P720 => 720,
            Self::P1080 => 1080,
            Self::P2160 => 2160,
        }
    }

    /// As clients write it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::P480 => "480p",
            Self::P720 => "720p",
            Self::P1080 => "1080p",
            Self::P2160 => "2160p",
        }
    }
}

/// Time against size.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Quality {
    /// As soon as possible.
    Draft,
    /// What most want.
    #[default]
    Standard,
    /// The best sensible quality.
    High,
}

impl Quality {
    /// ffmpeg's preset and rate factor.
    const fn settings(self) -> [&'static str; 4] {
        match self {
            Self::Draft => ["-preset", "ultrafast", "-crf", "28"],
            Self::Standard => ["-preset", "veryfast", "-crf", "23"],
            Self::High => ["-preset", "slow", "-crf", "19"],
        }
    }
}

/// The video on this host, and what it is.
#[derive(Serialize, Deserialize)]
pub struct Source {
    /// Its bytes.
    pub file: ScratchFile,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Where it says.
    pub duration_ms: Option<u64>,
}

impl Source {
    /// Of the shorter side: a video that stands upright has the same size as one that lies.
    #[must_use]
    pub fn lines(&self) -> u32 {
        self.width.min(self.height)
    }

    /// Whether it is at least that large: nothing is blown up.
    #[must_use]
    pub fn has(&self, size: Size) -> bool {
        self.lines() >= size.lines()
    }
}

/// One result: a stored file, and what it is.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct Rendition {
    /// `480p` to `2160p`, or `source` where the video is smaller than all of them.
    pub size: String,
    /// In pixels.
    pub width: u32,
    /// In pixels.
    pub height: u32,
    /// Where it is.
    #[serde(flatten)]
    pub file: StoredFile,
}

/// What a file is.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) duration_ms: Option<u64>,
}

/// Containers that hold their bytes themselves. A play list is none: it could name any file of this
/// host.
const CONTAINERS: &str =
    "mov,mp4,matroska,webm,avi,mpegts,mpeg,flv,asf,ogg,mxf,gif,h264,hevc,m4v,mpegvideo";

/// More is no video but an attempt to fill the memory.
const LARGEST_SIDE: u32 = 16_384;

/// Of one picture: that of an 8K video. Also told to ffmpeg, because a video may change its size on
/// the way.
const MOST_PIXELS: u64 = 8_192 * 4_320;

/// Before each input: what may be opened, and how.
fn input(from: &Path) -> Vec<String> {
    let guards = [
        "-protocol_whitelist",
        "file,pipe",
        "-format_whitelist",
        CONTAINERS,
        "-max_pixels",
    ];
    let guards = guards.iter().map(|&text| text.to_owned());
    guards
        .chain([MOST_PIXELS.to_string(), "-i".to_owned(), file(from)])
        .collect()
}

/// Said like this, no name can be taken for an option or for another protocol.
fn file(path: &Path) -> String {
    format!("file:{}", path.display())
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

/// Looks what a file is.
///
/// # Errors
/// Permanent where it is no video that can be read, or ffprobe is missing.
pub(super) async fn probe(ctx: &StepContext, path: &Path) -> StepResult<Found> {
    let mut arguments = words(
        "-v error -select_streams V:0 -show_entries stream=width,height:format=duration -of json",
    );
    arguments.extend(input(path));
    let mut said = String::new();
    tool::run(ctx, Tool::Ffprobe, &arguments, |line| {
        // What is asked for takes a few lines.
        if said.len() < 64 * 1024 {
            said.push_str(line);
        }
    })
    .await?;
    read(&said)
}

fn read(said: &str) -> StepResult<Found> {
    #[derive(Deserialize)]
    struct Said {
        #[serde(default)]
        streams: Vec<Stream>,
        #[serde(default)]
        format: Format,
    }
    #[derive(Deserialize)]
    struct Stream {
        #[serde(default)]
        width: u32,
        #[serde(default)]
        height: u32,
    }
    #[derive(Deserialize, Default)]
    struct Format {
        duration: Option<String>,
    }
    let said: Said = serde_json::from_str(said).map_err(|error| {
        StepError::permanent(format_args!("ffprobe's answer cannot be read: {error}"))
    })?;
    let Some(Stream { width, height }) = said.streams.first() else {
        return Err(StepError::permanent("the file has no video in it"));
    };
    let side = 2..=LARGEST_SIDE;
    if !side.contains(width) || !side.contains(height) {
        return Err(StepError::permanent(format_args!(
            "a video of {width} by {height} pixels is not taken: each side has 2 to {LARGEST_SIDE}"
        )));
    }
    if u64::from(*width) * u64::from(*height) > MOST_PIXELS {
        return Err(StepError::permanent(format_args!(
            "a video of {width} by {height} pixels is not taken: a picture may have {MOST_PIXELS}"
        )));
    }
    let duration = said
        .format
        .duration
        .and_then(|text| text.parse::<f64>().ok());
    let duration_ms = duration
        .filter(|seconds| (0.0..1e9).contains(seconds))
        .map(|seconds| (seconds * 1e3) as u64);
    Ok(Found {
        width: *width,
        height: *height,
        duration_ms,
    })
}

/// Renders to an MP4 that players can begin with before they have all of it. `None`: in the
/// source's own size.
///
/// # Errors
/// Permanent where ffmpeg cannot, transient where the disk is full or a signal has ended it.
pub(super) async fn render(
    ctx: &StepContext,
    from: &Path,
    to: &Path,
    size: Option<Size>,
    quality: Quality,
    duration_ms: Option<u64>,
) -> StepResult<()> {
    let mut arguments = words("-hide_banner -nostdin -nostats -v error -progress pipe:1");
    arguments.extend(input(from));
    // The first picture track and the first sound, and nothing of what the file says about its
    // author.
    arguments.extend(words(
        "-map 0:V:0 -map 0:a:0? -sn -dn -map_metadata -1 -map_chapters -1 -c:v libx264",
    ));
    arguments.extend(quality.settings().map(str::to_owned));
    arguments.extend(["-vf".to_owned(), scale(size)]);
    arguments.extend(words(
        "-pix_fmt yuv420p -c:a aac -b:a 128k -ac 2 -movflags +faststart -f mp4 -y",
    ));
    arguments.push(file(to));
    let total = duration_ms.unwrap_or(0);
    let mut frames = 0;
    tool::run(ctx, Tool::Ffmpeg, &arguments, |line| {
        match line.split_once('=') {
            Some(("frame", value)) => frames = value.trim().parse().unwrap_or(frames),
            Some(("out_time_us", value)) => {
                // It is `N/A` before the first frame, and may be a little less than nothing.
                let done = value
                    .trim()
                    .parse()
                    .map_or(0, |micros: i64| u64::try_from(micros).unwrap_or(0) / 1000);
                ctx.progress(if total == 0 { done } else { done.min(total) }, total);
            }
            _ => {}
        }
    })
    .await?;
    if frames == 0 {
        return Err(StepError::permanent(
            "not one picture of the video could be read",
        ));
    }
    Ok(())
}

/// Both sides even, as the codec wants it; the shorter one has the lines. ffmpeg has turned the
/// picture upright by then.
fn scale(size: Option<Size>) -> String {
    match size {
        None => "scale=trunc(iw/2)*2:trunc(ih/2)*2".to_owned(),
        Some(size) => {
            let lines = size.lines();
            format!("scale='if(gt(iw,ih),-2,{lines})':'if(gt(iw,ih),{lines},-2)'")
        }
    }
}

/// Makes a JPEG of one frame. The file stays empty where there is none.
///
/// # Errors
/// As [`render`].
pub(super) async fn picture(
    ctx: &StepContext,
    from: &Path,
    to: &Path,
    at_ms: u64,
) -> StepResult<()> {
    let mut arguments = words("-hide_banner -nostdin -nostats -v error -ss");
    arguments.push(format!("{}.{:03}", at_ms / 1000, at_ms % 1000));
    arguments.extend(input(from));
    arguments.extend(words("-map 0:V:0 -frames:v 1 -map_metadata -1 -vf"));
    arguments.push("scale='min(640,iw)':-2".to_owned());
    arguments.extend(words("-pix_fmt yuvj420p -c:v mjpeg -q:v 4 -f mjpeg -y"));
    arguments.push(file(to));
    tool::run(ctx, Tool::Ffmpeg, &arguments, |_| {}).await
}

/// The endings of files with videos.
const ENDINGS: [&str; 12] = [
    "3gp", "avi", "flv", "m4v", "mkv", "mov", "mp4", "mpeg", "mpg", "ts", "webm", "wmv",
];

/// What a result is called: metadata only.
pub(super) fn name_of(req: &TranscodeVideoRequest, what: &str) -> FileName {
    let file = req.video.name.as_str();
    // A dot of a title is none of an ending: "Episode 1.5".
    let is_ending = |it: &str| ENDINGS.iter().any(|known| it.eq_ignore_ascii_case(known));
    let stem = match &req.name {
        None => file.rsplit_once('.').map_or(file, |(stem, _)| stem),
        Some(title) => match title.as_str().rsplit_once('.') {
            Some((stem, end)) if is_ending(end) => stem,
            Some(_) | None => title.as_str(),
        },
    };
    let plain = || FileName::parse(what).unwrap_or_else(|_| req.video.name.clone());
    // A name that is as long as a name can be has no room for more.
    FileName::parse(&format!("{stem}-{what}")).unwrap_or_else(|_| plain())
}

#[cfg(test)]
mod tests {
    use super::*;
    use counterstep_steps::ErrorClass;

    #[test]
    fn a_result_is_called_by_the_whole_title_without_the_ending_of_a_file() {
        for (title, name) in [
            (None, "take-480p"),
            (Some("Episode 1.5"), "Episode 1.5-480p"),
            (Some("holiday.MOV"), "holiday-480p"),
            (Some("holiday.webm"), "holiday-480p"),
            (Some("holiday"), "holiday-480p"),
        ] {
            let video = serde_json::json!({"field": "video", "name": "take.mov", "content_type": "", "size_bytes": 1,
                "sha256": "", "bucket": "", "key": ""});
            let req = serde_json::from_value(serde_json::json!({"video": video, "name": title}));
            assert_eq!(name_of(&req.unwrap(), "480p").as_str(), name);
        }
    }

    #[test]
    fn what_ffprobe_says_is_read_or_refused() {
        let said = r#"{"programs": [], "streams": [{"width": 640, "height": 480}], "format": {"duration": "1.280000"}}"#;
        assert_eq!(
            read(said).unwrap(),
            Found {
                width: 640,
                height: 480,
                duration_ms: Some(1280)
            }
        );
        let silent = r#"{"streams": [{"width": 640, "height": 480}], "format": {}}"#;
        assert_eq!(read(silent).unwrap().duration_ms, None);
        for (said, why) in [
            ("", "cannot be read"),
            (
                r#"{"streams": [], "format": {"duration": "3.0"}}"#,
                "no video in it",
            ),
            (
                r#"{"streams": [{"width": 0, "height": 0}]}"#,
                "0 by 0 pixels",
            ),
            (
                r#"{"streams": [{"width": 65000, "height": 20}]}"#,
                "65000 by 20 pixels",
            ),
        ] {
            let error = read(said).unwrap_err();
            assert_eq!(error.class, ErrorClass::Permanent);
            assert!(error.message.contains(why), "{error}");
        }
    }
}
