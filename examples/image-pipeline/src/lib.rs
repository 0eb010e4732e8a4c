//! Small copies of a picture: stored while the request arrives, looked at, scaled to two sizes side
//! by side, and described.

mod picture;

use counterstep::prelude::*;
pub use picture::Picture;
use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;

/// A form with the file `picture`, a PPM (P6).
#[derive(Debug, Serialize, Deserialize)]
pub struct Request {
    pub picture: UploadedFile,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Size {
    pub width: u32,
    pub height: u32,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct Copies {
    pub size: Size,
    /// `GET /api/tasks/{id}/result/icon`
    pub icon: StoredFile,
    /// Where the picture is larger than that.
    pub preview: Option<StoredFile>,
}

/// The longer side of each copy.
const ICON: u32 = 16;
const PREVIEW: u32 = 64;

const PATIENT: RetryPolicy = RetryPolicy::exponential("200ms").max_retries(5).cap("10s");

pub struct Shrink;

#[distributed_task(name = "ShrinkPicture", cancellable, timeout = "10m")]
impl Shrink {
    type Request = Request;
    type Response = Copies;

    /// A built-in step at the head: the file is stored while the request arrives.
    #[step(1, host = "api")]
    fn original(request: &Request) -> UploadOne {
        UploadOne::to("originals", &request.picture)
    }

    #[step(2, host = "worker", retry = PATIENT)]
    #[pure]
    async fn look(ctx: &StepContext, original: &StoredFile) -> StepResult<Size> {
        let picture = fetch(ctx, original).await?;
        Ok(Size {
            width: picture.width,
            height: picture.height,
        })
    }

    /// Heavy: as many at a time as the worker has cores, whatever its number of tasks.
    #[step(3, host = "worker", group = "copies", heavy, retry = PATIENT, undo = remove_icon)]
    async fn icon(ctx: &StepContext, original: &StoredFile) -> StepResult<StoredFile> {
        copy(ctx, original, "icon.ppm", ICON).await
    }

    async fn remove_icon(ctx: &StepContext) -> UndoResult {
        remove(ctx).await
    }

    #[step(
        4,
        host = "worker",
        group = "copies",
        heavy,
        retry = PATIENT,
        when = is_large,
        undo = remove_preview
    )]
    async fn preview(ctx: &StepContext, original: &StoredFile) -> StepResult<StoredFile> {
        copy(ctx, original, "preview.ppm", PREVIEW).await
    }

    fn is_large(size: &Size) -> bool {
        size.width.max(size.height) > PREVIEW
    }

    async fn remove_preview(ctx: &StepContext) -> UndoResult {
        remove(ctx).await
    }

    fn respond(size: &Size, icon: &StoredFile, preview: Option<&StoredFile>) -> Copies {
        Copies {
            size: Size {
                width: size.width,
                height: size.height,
            },
            icon: icon.clone(),
            preview: preview.cloned(),
        }
    }
}

async fn fetch(ctx: &StepContext, original: &StoredFile) -> StepResult<Picture> {
    Picture::fits(original.size_bytes)?;
    let mut bytes = Vec::new();
    let mut reader = ctx.objects().reader(original).await?;
    let read = reader.read_to_end(&mut bytes).await;
    read.transient("reading the picture")?;
    Picture::read(&bytes)
}

async fn copy(
    ctx: &StepContext,
    original: &StoredFile,
    name: &str,
    longer_side: u32,
) -> StepResult<StoredFile> {
    let picture = fetch(ctx, original).await?;
    // Work for a processor: not on the threads on which steps wait for others.
    let scaled = tokio::task::spawn_blocking(move || picture.scaled_to(longer_side).write()).await;
    let scaled = scaled.transient("scaling the picture")?;
    let name = FileName::parse(name).permanent("naming the copy")?;
    let body = futures::stream::once(async move { Ok(scaled.into()) });
    ctx.objects()
        .put("copies", &name, "image/x-portable-pixmap", Box::pin(body))
        .await
}

async fn remove(ctx: &StepContext) -> UndoResult {
    ctx.objects().delete_all_of_step().await?;
    Ok(())
}

pub fn tasks() -> Registry {
    Registry::new().with::<Shrink>()
}
