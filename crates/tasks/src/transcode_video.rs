//! A video arrives at the API and is stored; a worker looks at it and renders it in the sizes that
//! it has, side by side, with a picture for previews; a list of all of it comes last. The work is
//! done by ffmpeg, which has to be installed on the workers.

mod media;
mod tool;

pub use media::{Quality, Rendition, Size, Source};

use counterstep_macros::distributed_task;
use counterstep_steps::prelude::*;
use futures::StreamExt;
use serde::{Deserialize, Serialize};
use std::io;

/// What a client sends: a form, with the text fields before the file.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TranscodeVideoRequest {
    /// The video, in any of the usual containers.
    pub video: UploadedFile,
    /// What the results are called before their size, as in `holiday-720p.mp4`; the video's own
    /// name otherwise.
    #[serde(default)]
    pub name: Option<FileName>,
    /// Time against size; `standard` otherwise.
    #[serde(default)]
    pub quality: Option<Quality>,
    /// Nothing larger is rendered; everything that the video has otherwise.
    #[serde(default)]
    pub largest: Option<Size>,
}

/// What a client gets.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct TranscodeVideoResponse {
    /// Length in milliseconds, where the video says.
    pub duration_ms: Option<u64>,
    /// Of the source, in pixels.
    pub width: u32,
    /// Of the source, in pixels.
    pub height: u32,
    /// From small to large.
    pub renditions: Vec<Rendition>,
    /// A JPEG from the middle.
    pub thumbnail: StoredFile,
    /// All of this as JSON, for a reader who finds the files without the task.
    pub manifest: StoredFile,
}

/// The preview.
#[derive(Serialize, Deserialize)]
pub struct Thumbnail(pub StoredFile);

/// The list of the results.
#[derive(Serialize, Deserialize)]
pub struct Manifest {
    /// As it is stored.
    pub file: StoredFile,
    /// What it lists, from small to large.
    pub renditions: Vec<Rendition>,
}

/// Copying from the object store: it may be back in a moment.
pub const FETCH_RETRY: RetryPolicy = RetryPolicy::exponential("500ms").max_retries(4);
/// Small renditions are cheap to try again.
pub const RENDER_RETRY: RetryPolicy = RetryPolicy::exponential("500ms")
    .max_retries(3)
    .attempt_timeout("1h");
/// The largest one costs a worker hours: once more, after a while, and no more.
pub const RENDER_2160P_RETRY: RetryPolicy = RetryPolicy::constant("30s")
    .max_retries(1)
    .attempt_timeout("4h");
/// A picture is made in seconds or not at all.
pub const THUMBNAIL_RETRY: RetryPolicy = RetryPolicy::constant("500ms")
    .max_retries(2)
    .attempt_timeout("2m");

/// Renders a video in several sizes.
pub struct TranscodeVideo;

#[distributed_task(
    name = "TranscodeVideo",
    version = 1,
    queue = "video-processing",
    timeout = "12h",
    max_recoveries = 5,
    cancellable
)]
impl TranscodeVideo {
    type Request = TranscodeVideoRequest;
    type Response = TranscodeVideoResponse;

    #[step(1, host = "api")]
    fn upload_source(req: &TranscodeVideoRequest) -> UploadOne {
        UploadOne::to("incoming-videos", &req.video)
    }

    #[step(2, host = "worker", retry = FETCH_RETRY, timeout = "1h", no_undo = "writes scratch only")]
    async fn probe_source(ctx: &StepContext, upload_source: &StoredFile) -> StepResult<Source> {
        let draft = fetch(ctx, upload_source).await?;
        let found = media::probe(ctx, draft.path()).await?;
        // The bytes alone make the file: made again on another host, it is the same.
        Ok(Source {
            file: draft.seal().await?,
            width: found.width,
            height: found.height,
            duration_ms: found.duration_ms,
        })
    }

    #[step(3, host = "worker", heavy, group = "renditions", when = is_small, retry = RENDER_RETRY, undo = discard)]
    async fn render_as_is(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
    ) -> StepResult<Rendition> {
        render(ctx, req, source, None).await
    }

    #[step(4, host = "worker", heavy, group = "renditions", when = has_480p, retry = RENDER_RETRY, undo = discard)]
    async fn render_480p(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
    ) -> StepResult<Rendition> {
        render(ctx, req, source, Some(Size::P480)).await
    }

    #[step(5, host = "worker", heavy, group = "renditions", when = has_720p, retry = RENDER_RETRY, undo = discard)]
    async fn render_720p(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
    ) -> StepResult<Rendition> {
        render(ctx, req, source, Some(Size::P720)).await
    }

    #[step(6, host = "worker", heavy, group = "renditions", when = has_1080p, retry = RENDER_RETRY, undo = discard)]
    async fn render_1080p(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
    ) -> StepResult<Rendition> {
        render(ctx, req, source, Some(Size::P1080)).await
    }

    #[step(7, host = "worker", heavy, group = "renditions", when = has_2160p, retry = RENDER_2160P_RETRY, undo = discard)]
    async fn render_2160p(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
    ) -> StepResult<Rendition> {
        render(ctx, req, source, Some(Size::P2160)).await
    }

    #[step(8, host = "worker", heavy, group = "renditions", retry = THUMBNAIL_RETRY, fallback = first_frame,
           undo = discard)]
    async fn make_thumbnail(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
    ) -> StepResult<Thumbnail> {
        thumbnail(ctx, req, source, source.duration_ms.unwrap_or(0) / 2).await
    }

    /// Where the middle cannot be found, the beginning will do.
    async fn first_frame(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
    ) -> StepResult<Thumbnail> {
        thumbnail(ctx, req, source, 0).await
    }

    #[step(9, host = "worker", retry = FETCH_RETRY, undo = discard)]
    #[allow(clippy::too_many_arguments, reason = "one for each size")]
    async fn store_manifest(
        ctx: &StepContext,
        req: &TranscodeVideoRequest,
        source: &Source,
        render_as_is: Option<&Rendition>,
        render_480p: Option<&Rendition>,
        render_720p: Option<&Rendition>,
        render_1080p: Option<&Rendition>,
        render_2160p: Option<&Rendition>,
        thumbnail: &Thumbnail,
    ) -> StepResult<Manifest> {
        let renditions = [
            render_as_is,
            render_480p,
            render_720p,
            render_1080p,
            render_2160p,
        ];
        let renditions: Vec<_> = renditions.into_iter().flatten().cloned().collect();
        let list = ManifestList {
            duration_ms: source.duration_ms,
            width: source.width,
            height: source.height,
            renditions: &renditions,
            thumbnail: &thumbnail.0,
        };
        let text = serde_json::to_vec_pretty(&list).permanent("writing the manifest")?;
        let body = futures::stream::once(async move { Ok(text.into()) }).boxed();
        let name = media::name_of(req, "manifest.json");
        let file = ctx
            .objects()
            .put("processed-videos", &name, "application/json", body)
            .await?;
        Ok(Manifest { file, renditions })
    }

    /// Renditions, pictures and lists alike: everything that any attempt of the step has stored.
    async fn discard(ctx: &StepContext) -> UndoResult {
        ctx.objects().delete_all_of_step().await.map(drop)
    }

    fn is_small(source: &Source) -> bool {
        source.lines() < Size::P480.lines()
    }

    fn has_480p(source: &Source) -> bool {
        source.has(Size::P480)
    }

    fn has_720p(req: &TranscodeVideoRequest, source: &Source) -> bool {
        wanted(req, source, Size::P720)
    }

    fn has_1080p(req: &TranscodeVideoRequest, source: &Source) -> bool {
        wanted(req, source, Size::P1080)
    }

    fn has_2160p(req: &TranscodeVideoRequest, source: &Source) -> bool {
        wanted(req, source, Size::P2160)
    }

    fn respond(
        source: &Source,
        thumbnail: &Thumbnail,
        manifest: &Manifest,
    ) -> TranscodeVideoResponse {
        TranscodeVideoResponse {
            duration_ms: source.duration_ms,
            width: source.width,
            height: source.height,
            renditions: manifest.renditions.clone(),
            thumbnail: thumbnail.0.clone(),
            manifest: manifest.file.clone(),
        }
    }
}

#[derive(Serialize)]
struct ManifestList<'a> {
    duration_ms: Option<u64>,
    width: u32,
    height: u32,
    renditions: &'a [Rendition],
    thumbnail: &'a StoredFile,
}

fn wanted(req: &TranscodeVideoRequest, source: &Source, size: Size) -> bool {
    source.has(size) && req.largest.is_none_or(|largest| size <= largest)
}

/// Copies the source to this host's disk, piece by piece: ffmpeg has to jump about in it, and each
/// rendition reads it.
async fn fetch(ctx: &StepContext, stored: &StoredFile) -> StepResult<ScratchDraft> {
    let (draft, stored) = (ctx.scratch("source").await?, stored.clone());
    ctx.blocking(move |on| {
        on.expect(stored.size_bytes);
        let mut copy = on.writer(draft)?;
        io::copy(&mut on.reader(&stored)?, &mut copy).transient("copying the source")?;
        copy.finish()
    })
    .await
}

/// Renders one size, or the source's own, and stores it.
async fn render(
    ctx: &StepContext,
    req: &TranscodeVideoRequest,
    source: &Source,
    size: Option<Size>,
) -> StepResult<Rendition> {
    let label = size.map_or("source", Size::as_str);
    let from = ctx.scratch_path(&source.file).await?;
    let draft = ctx.scratch("rendition.mp4").await?;
    media::render(
        ctx,
        &from,
        draft.path(),
        size,
        req.quality.unwrap_or_default(),
        source.duration_ms,
    )
    .await?;
    // What ffmpeg says it has written is looked at before it counts.
    let made = media::probe(ctx, draft.path()).await?;
    let file = keep(
        ctx,
        &draft,
        &media::name_of(req, &format!("{label}.mp4")),
        "video/mp4",
    )
    .await?;
    Ok(Rendition {
        size: label.to_owned(),
        width: made.width,
        height: made.height,
        file,
    })
}

/// Makes a picture of the frame at `at_ms` and stores it.
async fn thumbnail(
    ctx: &StepContext,
    req: &TranscodeVideoRequest,
    source: &Source,
    at_ms: u64,
) -> StepResult<Thumbnail> {
    let from = ctx.scratch_path(&source.file).await?;
    let draft = ctx.scratch("thumbnail.jpg").await?;
    media::picture(ctx, &from, draft.path(), at_ms).await?;
    let made = tokio::fs::metadata(draft.path())
        .await
        .transient("looking at the picture")?;
    if made.len() == 0 {
        return Err(StepError::permanent(format_args!(
            "the video has no picture at {at_ms} ms"
        )));
    }
    Ok(Thumbnail(
        keep(
            ctx,
            &draft,
            &media::name_of(req, "thumbnail.jpg"),
            "image/jpeg",
        )
        .await?,
    ))
}

/// Streams a local file to the object store.
async fn keep(
    ctx: &StepContext,
    draft: &ScratchDraft,
    name: &FileName,
    content_type: &str,
) -> StepResult<StoredFile> {
    let file = tokio::fs::File::open(draft.path())
        .await
        .transient("reading the result")?;
    let body = tokio_util::io::ReaderStream::with_capacity(file, 64 * 1024).boxed();
    tokio::select! {
        stored = ctx.objects().put("processed-videos", name, content_type, body) => stored,
        _ = ctx.cancel().cancelled() => Err(StepError::cancelled()),
    }
}
