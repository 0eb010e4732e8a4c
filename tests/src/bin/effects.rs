//! A program whose steps note what they did outside of the engine: a line when one has begun, and
//! one when it has finished, in the file that `EFFECTS` names. And steps that misbehave.

use counterstep::prelude::*;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

struct Effects(PathBuf);

impl Effects {
    /// One write of one line: lines of several processes do not mix.
    fn note(&self, ctx: &StepContext, what: &str) -> StepResult<()> {
        let line = format!("{} {} {what}\n", ctx.effect_key(), ctx.attempt());
        let mut file = std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.0)
            .transient("the effects")?;
        file.write_all(line.as_bytes()).transient("the effects")
    }

    async fn carry_out(&self, ctx: &StepContext, errand: &Errand) -> StepResult<()> {
        self.note(ctx, "began")?;
        ctx.log(LogLevel::Info, "began");
        tokio::time::sleep(Duration::from_millis(errand.step_ms)).await;
        ctx.log(LogLevel::Info, "finished");
        self.note(ctx, "finished")
    }
}

#[derive(Serialize, Deserialize)]
struct Errand {
    /// How long each step takes.
    step_ms: u64,
}

/// What only its host has.
#[derive(Serialize, Deserialize)]
struct Packed {
    file: ScratchFile,
}

struct RunErrand;

#[distributed_task(queue = "errands", max_recoveries = 20)]
impl RunErrand {
    type Request = Errand;
    type Response = u64;

    #[step(1, host = "worker", no_undo = "only notes")]
    async fn begin(
        ctx: &StepContext,
        errand: &Errand,
        effects: &State<Effects>,
    ) -> StepResult<u32> {
        effects.carry_out(ctx, errand).await?;
        Ok(1)
    }

    #[step(2, host = "worker", no_undo = "writes scratch only")]
    async fn pack(
        ctx: &StepContext,
        errand: &Errand,
        effects: &State<Effects>,
    ) -> StepResult<Packed> {
        let draft = ctx.scratch("packed").await?;
        std::fs::write(draft.path(), ctx.effect_key()).transient("the file")?;
        effects.carry_out(ctx, errand).await?;
        Ok(Packed {
            file: draft.seal().await?,
        })
    }

    #[step(3, host = "worker", no_undo = "only notes")]
    async fn deliver(
        ctx: &StepContext,
        errand: &Errand,
        packed: &Packed,
        effects: &State<Effects>,
    ) -> StepResult<u64> {
        let path = ctx.scratch_path(&packed.file).await?;
        let bytes = std::fs::metadata(path).transient("the file")?.len();
        effects.carry_out(ctx, errand).await?;
        Ok(bytes)
    }

    #[step(4, host = "worker", no_undo = "only notes")]
    async fn report(
        ctx: &StepContext,
        errand: &Errand,
        effects: &State<Effects>,
    ) -> StepResult<String> {
        effects.carry_out(ctx, errand).await?;
        Ok("done".to_owned())
    }

    fn respond(deliver: &u64) -> u64 {
        *deliver
    }
}

/// Its first step goes on when its worker cannot reach the database.
struct Endure;

#[distributed_task(queue = "errands", max_recoveries = 20)]
impl Endure {
    type Request = Errand;
    type Response = u32;

    #[step(
        1,
        host = "worker",
        timeout = "60s",
        no_undo = "only notes",
        when_cut_off = "finish"
    )]
    async fn endure(
        ctx: &StepContext,
        errand: &Errand,
        effects: &State<Effects>,
    ) -> StepResult<u32> {
        effects.carry_out(ctx, errand).await?;
        Ok(1)
    }

    #[step(2, host = "worker", no_undo = "only notes")]
    async fn report(ctx: &StepContext, endure: &u32, effects: &State<Effects>) -> StepResult<u64> {
        effects.note(ctx, "began")?;
        effects.note(ctx, "finished")?;
        Ok(u64::from(*endure))
    }

    fn respond(endure: &u32) -> u32 {
        *endure
    }
}

/// The same, and its first step stops.
struct Falter;

#[distributed_task(queue = "errands", max_recoveries = 20)]
impl Falter {
    type Request = Errand;
    type Response = u32;

    #[step(1, host = "worker", timeout = "60s", no_undo = "only notes")]
    async fn falter(
        ctx: &StepContext,
        errand: &Errand,
        effects: &State<Effects>,
    ) -> StepResult<u32> {
        effects.carry_out(ctx, errand).await?;
        Ok(1)
    }

    fn respond(falter: &u32) -> u32 {
        *falter
    }
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mischief {
    /// Computes without a pause.
    Spin,
    /// Blocks its thread.
    Sleep,
    /// Panics.
    Panic,
    /// Waits, whatever its token says.
    IgnoreToken,
}

#[derive(Serialize, Deserialize)]
struct Misdeed {
    how: Mischief,
    /// Milliseconds that it takes.
    ms: u64,
}

struct Misbehave;

#[distributed_task(queue = "errands", max_recoveries = 20)]
impl Misbehave {
    type Request = Misdeed;
    type Response = ();

    #[step(
        1,
        host = "worker",
        timeout = "3s",
        retry = ONCE,
        no_undo = "only notes"
    )]
    async fn misbehave(
        ctx: &StepContext,
        misdeed: &Misdeed,
        effects: &State<Effects>,
    ) -> StepResult<()> {
        effects.note(ctx, "began")?;
        let time = Duration::from_millis(misdeed.ms);
        match misdeed.how {
            Mischief::Spin => spin(time),
            Mischief::Sleep => std::thread::sleep(time),
            Mischief::Panic => panic!("as it was told to"),
            Mischief::IgnoreToken => tokio::time::sleep(time).await,
        }
        effects.note(ctx, "finished")
    }

    fn respond() {}
}

const ONCE: RetryPolicy = RetryPolicy::NONE;

fn spin(time: Duration) {
    let since = Instant::now();
    let mut number = 0_u64;
    while since.elapsed() < time {
        number = std::hint::black_box(number.wrapping_mul(31).wrapping_add(7));
    }
}

/// Ends its process, or does not end by itself.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mishap {
    /// Nothing happens.
    None,
    Abort,
    Segfault,
    /// Ends the process as if all was well.
    Exit,
    Panic,
    /// Takes memory until it is stopped.
    Leak,
    /// Computes until it is stopped, whatever its token says.
    Spin,
}

#[derive(Serialize, Deserialize)]
struct Flight {
    how: Mishap,
    /// Leaves a process behind that would run for an hour, in a session of its own.
    #[serde(default)]
    leaves: bool,
    /// Tries to read these files.
    #[serde(default)]
    read: Vec<PathBuf>,
    /// Tries to write these files.
    #[serde(default)]
    write: Vec<PathBuf>,
    /// Asks whether it may send a signal to this process, and set its priority.
    #[serde(default)]
    signal: Option<u32>,
}

impl Flight {
    /// Logs what the step can do.
    fn look_around(&self, ctx: &StepContext) -> StepResult<()> {
        let tell =
            |what: &str, could: bool| ctx.log(LogLevel::Info, format_args!("{what} {could}"));
        for path in &self.read {
            tell(
                &format!("reads {}", path.display()),
                std::fs::read(path).is_ok(),
            );
        }
        for path in &self.write {
            let written = std::fs::write(path, "from a step");
            tell(&format!("writes {}", path.display()), written.is_ok());
        }
        if let Some(process) = self.signal {
            let asked = std::process::Command::new("kill")
                .args(["-0", &process.to_string()])
                .stderr(std::process::Stdio::null())
                .status();
            tell("signals its host", asked.transient("kill")?.success());
            let asked = std::process::Command::new("renice")
                .args(["0", "-p", &process.to_string()])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status();
            tell("orders its host", asked.transient("renice")?.success());
        }
        // A program that it starts finds its libraries, and a folder for its own files.
        let written = std::process::Command::new("sh")
            .args([
                "-c",
                "date > \"$TMPDIR/today\" && cat \"$TMPDIR/today\" > /dev/null",
            ])
            .status();
        tell("starts programs", written.transient("sh")?.success());
        let status = std::fs::read_to_string("/proc/self/status").transient("its status")?;
        let privs = status
            .lines()
            .find_map(|line| line.strip_prefix("NoNewPrivs:"));
        tell(
            "gains rights",
            privs.is_none_or(|privs| privs.trim() != "1"),
        );
        if self.leaves {
            let left = std::process::Command::new("setsid")
                .args(["sleep", "3600"])
                .spawn();
            let left = left.transient("sleep")?.id();
            ctx.log(LogLevel::Info, format_args!("left {left}"));
        }
        Ok(())
    }
}

/// What the process of a step has of the environment.
#[derive(Serialize, Deserialize)]
struct Landed {
    variables: Vec<String>,
    arguments: usize,
    packed: ScratchFile,
}

struct Fly;

#[distributed_task(queue = "errands", max_recoveries = 20, cancellable)]
impl Fly {
    type Request = Flight;
    type Response = u64;

    #[step(
        1,
        host = "worker",
        isolate = "process",
        memory = "192MiB",
        timeout = "3s",
        retry = ONCE,
        undo = land
    )]
    async fn fly(
        ctx: &StepContext,
        flight: &Flight,
        effects: &State<Effects>,
    ) -> StepResult<Landed> {
        ctx.log(LogLevel::Info, "took off");
        // The file itself is no business of the process.
        let file = effects.0.display();
        ctx.log(
            LogLevel::Info,
            format_args!("pid {} {file}", std::process::id()),
        );
        flight.look_around(ctx)?;
        ctx.progress_with(1, 2, "in the air");
        match flight.how {
            Mishap::None => {}
            Mishap::Abort => std::process::abort(),
            Mishap::Segfault => signal("SEGV"),
            Mishap::Exit => std::process::exit(0),
            Mishap::Panic => panic!("mayday"),
            Mishap::Leak => leak(),
            Mishap::Spin => spin(Duration::from_secs(3_600)),
        }
        let name = FileName::parse("log.txt").permanent("a name")?;
        let body = futures::stream::iter([Ok(bytes::Bytes::from(vec![7; 600 << 10]))]);
        let stored = ctx
            .objects()
            .put("logs", &name, "text/plain", Box::pin(body));
        let stored = stored.await?;
        let read = ctx.objects().read(&stored).await?;
        let read: Vec<bytes::Bytes> = futures::TryStreamExt::try_collect(read)
            .await
            .transient("the object")?;
        let size: usize = read.iter().map(bytes::Bytes::len).sum();
        let draft = ctx.scratch("packed").await?;
        std::fs::write(draft.path(), size.to_string()).transient("the file")?;
        ctx.log(LogLevel::Info, format_args!("landed with {size}"));
        Ok(Landed {
            variables: std::env::vars().map(|(name, _)| name).collect(),
            arguments: std::env::args().count(),
            packed: draft.seal().await?,
        })
    }

    async fn land(ctx: &StepContext, effects: &State<Effects>) -> UndoResult {
        let file = effects.0.display();
        ctx.log(
            LogLevel::Info,
            format_args!("pid {} {file}", std::process::id()),
        );
        ctx.objects().delete_all_of_step().await?;
        Ok(())
    }

    /// In the worker itself.
    #[step(2, host = "worker", no_undo = "only reads")]
    async fn report(ctx: &StepContext, fly: &Landed, effects: &State<Effects>) -> StepResult<u64> {
        effects.note(ctx, &format!("worker {}", std::process::id()))?;
        effects.note(
            ctx,
            &format!("env {} {}", fly.arguments, fly.variables.join(",")),
        )?;
        let text = std::fs::read_to_string(ctx.scratch_path(&fly.packed).await?);
        text.transient("the file")?.parse().permanent("a number")
    }

    fn respond(report: &u64) -> u64 {
        *report
    }
}

#[derive(Serialize, Deserialize)]
struct Freight {
    text: String,
}

#[derive(Serialize, Deserialize)]
struct Loaded {
    file: ScratchFile,
}

/// A file that processes hand to each other. Its bytes are turned round once it is sealed: where it is read against its SHA-256
/// again, it counts as lost, and its step runs again.
struct Haul;

#[distributed_task(queue = "errands")]
impl Haul {
    type Request = Freight;
    type Response = Vec<String>;

    #[step(
        1,
        host = "worker",
        isolate = "process",
        no_undo = "writes scratch only"
    )]
    async fn load(ctx: &StepContext, freight: &Freight) -> StepResult<Loaded> {
        let draft = ctx.scratch("freight").await?;
        std::fs::write(draft.path(), &freight.text).transient("the file")?;
        let file = draft.seal().await?;
        let turned: String = freight.text.chars().rev().collect();
        std::fs::write(ctx.scratch_path(&file).await?, turned).transient("the file")?;
        Ok(Loaded { file })
    }

    #[step(2, host = "worker", isolate = "process", no_undo = "only reads")]
    async fn carry(ctx: &StepContext, load: &Loaded) -> StepResult<String> {
        let path = ctx.scratch_path(&load.file).await?;
        std::fs::read_to_string(path).transient("the file")
    }

    #[step(3, host = "worker", no_undo = "only reads")]
    async fn unload(ctx: &StepContext, load: &Loaded) -> StepResult<String> {
        let path = ctx.scratch_path(&load.file).await?;
        std::fs::read_to_string(path).transient("the file")
    }

    fn respond(carry: &String, unload: &String) -> Vec<String> {
        vec![carry.clone(), unload.clone()]
    }
}

/// Twice: at the first one the standard library only takes its own handler away.
fn signal(name: &str) {
    let own = std::process::id().to_string();
    for _ in 0..2 {
        let killed = std::process::Command::new("kill")
            .args(["-s", name, &own])
            .status();
        drop(killed);
    }
    spin(Duration::from_secs(3_600));
}

fn leak() {
    let mut all = Vec::new();
    loop {
        all.push(std::hint::black_box(vec![7_u8; 1 << 20]));
    }
}

/// Its condition never answers. Conditions run on the engine's own threads.
struct Block;

#[distributed_task(queue = "blocks")]
impl Block {
    type Request = u32;
    type Response = ();

    #[step(1, host = "worker", no_undo = "never runs", when = never_answers)]
    async fn unreached(_number: &u32) -> StepResult<()> {
        Ok(())
    }

    fn never_answers(_number: &u32) -> bool {
        loop {
            std::thread::park();
        }
    }

    fn respond() {}
}

fn main() -> ExitCode {
    let effects = Effects(std::env::var_os("EFFECTS").unwrap_or_default().into());
    let registry = Registry::new()
        .with::<RunErrand>()
        .with::<Misbehave>()
        .with::<Fly>()
        .with::<Haul>()
        .with::<Endure>()
        .with::<Falter>()
        .with::<Block>();
    counterstep::cli::main(registry.provide(effects))
}
