//! Running ffmpeg and ffprobe: with a list of arguments and no shell, with nothing of this
//! process's environment but the path, and never for longer than the step that started them.

use counterstep_steps::{Classify, StepContext, StepError, StepResult};
use std::process::{ExitStatus, Stdio};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

/// What is run.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tool {
    Ffmpeg,
    Ffprobe,
}

impl Tool {
    const fn program(self) -> &'static str {
        match self {
            Self::Ffmpeg => "ffmpeg",
            Self::Ffprobe => "ffprobe",
        }
    }
}

/// Of what a program says, the end is kept: the last line is mostly the reason.
const EXCERPT: usize = 600;
/// A longer line is cut.
const LONGEST_LINE: usize = 4 * 1024;
/// What the programs get of the environment. Not the settings of this process: there are secrets
/// among them.
const ENVIRONMENT: &[&str] = &["PATH", "LD_LIBRARY_PATH", "LANG"];

/// Runs a program to its end and hands its lines over as they come. A cancelled step ends it and
/// waits until it is gone; one that is dropped ends it too.
///
/// # Errors
/// Permanent where the program is missing, or cannot do what it is asked to, with an excerpt of its
/// words. Transient where it was ended from outside, or the host has no room. Cancelled where the
/// step is.
pub(super) async fn run(
    ctx: &StepContext,
    tool: Tool,
    arguments: &[String],
    mut line: impl FnMut(&str),
) -> StepResult<()> {
    let mut child = Command::new(tool.program())
        .args(arguments)
        .env_clear()
        .envs(
            ENVIRONMENT
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // For a step that is dropped: at the limit of its attempt, or with the whole runtime.
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| not_started(tool, &error))?;
    let (Some(out), Some(err)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(StepError::transient(format_args!(
            "{} has no output to read",
            tool.program()
        )));
    };
    let work = async {
        // Both are read to their ends: a program whose pipe is full stands still.
        let (read, complaint) = tokio::join!(lines(out, &mut line), tail(err));
        read.transient("reading what the program says")?;
        let complaint = complaint.transient("reading what the program complains about")?;
        Ok((
            child.wait().await.transient("waiting for the program")?,
            complaint,
        ))
    };
    let ended: Option<StepResult<(ExitStatus, Vec<u8>)>> = tokio::select! {
        ended = work => Some(ended),
        _ = ctx.cancel().cancelled() => None,
    };
    let Some(ended) = ended else {
        // Gone before the step says that it has stopped: its files may be removed then. An error
        // means that it has just ended by itself.
        let _ = child.kill().await;
        return Err(StepError::cancelled());
    };
    let (status, complaint) = ended?;
    if status.success() {
        Ok(())
    } else {
        Err(failed(tool, status, &excerpt(&complaint, arguments)))
    }
}

fn not_started(tool: Tool, error: &std::io::Error) -> StepError {
    let program = tool.program();
    match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied => {
            StepError::permanent(format_args!(
                "`{program}` cannot be run on this worker ({error}): install ffmpeg, which brings it (on Debian: apt-get \
             install ffmpeg), and see to it that it is on the worker's PATH"
            ))
        }
        _ => StepError::transient(format_args!("starting `{program}`: {error}")),
    }
}

fn failed(tool: Tool, status: ExitStatus, words: &str) -> StepError {
    let program = tool.program();
    // Without a code it was ended by a signal: by a person, or by a system that has run out of
    // memory.
    let passes = [
        "No space left on device",
        "Cannot allocate memory",
        "Resource temporarily unavailable",
    ];
    if status.code().is_none() || passes.iter().any(|reason| words.contains(reason)) {
        return StepError::transient(format_args!("{program} was stopped ({status}): {words}"));
    }
    StepError::permanent(format_args!(
        "{program} cannot work with this video ({status}): {words}"
    ))
}

/// The end of what a program said, in one line, without the places of files on this host.
fn excerpt(complaint: &[u8], arguments: &[String]) -> String {
    let mut text = String::from_utf8_lossy(complaint).into_owned();
    for path in arguments
        .iter()
        .filter_map(|argument| argument.strip_prefix("file:"))
    {
        text = text
            .replace(&format!("file:{path}"), "(file)")
            .replace(path, "(file)");
    }
    let text = text
        .split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty());
    let text = text.collect::<Vec<_>>().join(" ");
    let mut start = text.len().saturating_sub(EXCERPT);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    if text.is_empty() {
        "it did not say why".to_owned()
    } else {
        text[start..].to_owned()
    }
}

async fn lines(
    mut from: impl AsyncRead + Unpin,
    line: &mut impl FnMut(&str),
) -> std::io::Result<()> {
    let (mut piece, mut open) = ([0; 4096], Vec::new());
    loop {
        let read = from.read(&mut piece).await?;
        for &byte in &piece[..read] {
            if byte == b'\n' {
                line(&String::from_utf8_lossy(&open));
                open.clear();
            } else if open.len() < LONGEST_LINE {
                open.push(byte);
            }
        }
        if read == 0 {
            if !open.is_empty() {
                line(&String::from_utf8_lossy(&open));
            }
            return Ok(());
        }
    }
}

/// The last bytes of a stream; more than an excerpt, because places of files are taken out of it.
async fn tail(mut from: impl AsyncRead + Unpin) -> std::io::Result<Vec<u8>> {
    const KEPT: usize = 8 * 1024;
    let (mut piece, mut kept) = ([0; 4096], Vec::new());
    loop {
        let read = from.read(&mut piece).await?;
        if read == 0 {
            return Ok(kept);
        }
        kept.extend_from_slice(&piece[..read]);
        if kept.len() > 2 * KEPT {
            kept.drain(..kept.len() - KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excerpt_is_short_and_names_no_place() {
        let arguments = ["-i".to_owned(), "file:/srv/scratch/source".to_owned()];
        let said = b"file:/srv/scratch/source: Invalid data\n\x1b[31mwhile \xffreading /srv/scratch/source\n";
        assert_eq!(
            excerpt(said, &arguments),
            "(file): Invalid data [31mwhile \u{fffd}reading (file)"
        );
        assert_eq!(excerpt(b" \n", &arguments), "it did not say why");
        let long = "\u{e9}".repeat(5_000);
        assert!((EXCERPT - 2..=EXCERPT).contains(&excerpt(long.as_bytes(), &arguments).len()));
    }

    #[tokio::test]
    async fn a_stream_is_read_to_its_end_and_little_of_it_kept() {
        let said: Vec<u8> = (0..100_000)
            .flat_map(|n: u32| format!("{n}\n").into_bytes())
            .collect();
        let kept = tail(said.as_slice()).await.unwrap();
        assert!(kept.len() <= 16 * 1024 && said.ends_with(&kept));
        let mut count = 0;
        lines(said.as_slice(), &mut |_: &str| count += 1)
            .await
            .unwrap();
        assert_eq!(count, 100_000);
        let mut longest = 0;
        lines([b'x'; 100_000].as_slice(), &mut |line: &str| {
            longest = longest.max(line.len())
        })
        .await
        .unwrap();
        assert_eq!(longest, LONGEST_LINE);
    }
}
