//! The list of diagnostic codes, one line each. A code is never used for another thing, and never
//! renumbered.
//!
//! Also compiled into the tests, which demand a compile-fail case and a paragraph of documentation
//! for each.

use std::fmt;

macro_rules! codes {
    ($($(#[$at:meta])* $name:ident = $number:literal, $meaning:literal;)*) => {
        /// What a diagnostic is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Code {
            $(#[doc = $meaning] $(#[$at])* $name = $number,)*
        }

        /// All of them, in order, each with what it means.
        #[allow(dead_code, reason = "read by the tests")]
        pub(crate) const ALL: &[(Code, &str)] = &[$((Code::$name, $meaning),)*];
    };
}

codes! {
    MissingUndo = 1, "a custom step does not say how it is undone";
    UndoTwice = 2, "a step says twice how it is undone";
    EmptyReason = 3, "`no_undo` gives no reason";
    NumberTaken = 4, "two steps have the same number";
    BadNumber = 5, "a step has no number, or an impossible one";
    MissingHost = 6, "a step does not say where it runs";
    UnknownUndo = 7, "`undo` names no undo function of the impl";
    UnknownWhen = 8, "`when` names no condition of the impl";
    UnknownStep = 9, "`#[undo(..)]` names no step";
    AmbiguousInput = 10, "a parameter goes by type, and two earlier sources give that type";
    NotEarlier = 11, "a function reads a step that is not earlier";
    GroupOverTwoHosts = 12, "the steps of a group run on two hosts";
    GroupNotContiguous = 13, "a step stands between the steps of a group";
    Cfg = 14, "a part of the declaration depends on `#[cfg]`";
    UnknownKey = 15, "an attribute has a key that is not known";
    DuplicateKey = 16, "an attribute has a key twice";
    BadValue = 17, "an attribute has a value that it cannot have";
    BadDuration = 18, "a text is no duration";
    MissingType = 19, "`type Request` or `type Response` is missing";
    MissingRespond = 20, "`fn respond` is missing";
    ReservedName = 21, "a step has a reserved name";
    BadParameter = 22, "a parameter is neither `&T` nor `Option<&T>`";
    SelfReceiver = 23, "a function of the declaration takes `self`";
    CustomStepNotAsync = 24, "a custom step is not async";
    BuiltInStepAsync = 25, "a built-in step is async";
    UndoNotAsync = 26, "an undo is not async";
    BadCondition = 27, "a condition is no plain function that returns `bool`";
    BadRespond = 28, "`respond` is async";
    GenericFunction = 29, "a function of the declaration is generic, unsafe or extern";
    NotAnInherentImpl = 30, "the attribute does not stand on a plain inherent impl";
    NoSteps = 31, "the task has no step";
    StrayAttribute = 32, "`#[step]`, `#[pure]` or `#[undo]` stands where it means nothing";
    BadName = 33, "a name has characters that subjects and routes cannot take";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    NotGiven = 34, "nothing that runs earlier gives the type of a parameter";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    WrongNamedInput = 35, "a parameter is named like a step that gives another type";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    CannotCross = 36, "a value with a local file would leave its host";
    NeedsOption = 37, "a parameter reads a step with `when` and takes no `Option`";
    NeedlessOption = 38, "a parameter takes an `Option` of what is always there";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    UndoMismatch = 39, "an undo takes another type than its step gives";
    NotAStepResult = 40, "a custom step does not return `StepResult<Output>`";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    NotStorable = 41, "an output cannot be stored";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    NotAnUndoResult = 42, "an undo does not return `UndoResult`";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    NotBuiltIn = 43, "a plain function returns no built-in step";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    WrongResponse = 44, "`respond` returns another type than `type Response`";
    #[allow(dead_code, reason = "found by constant evaluation in `counterstep_steps::declare`")]
    ImpossiblePolicy = 45, "a retry policy is impossible";
    UselessUndoRetry = 46, "`undo_retry` on a step that has no undo";
    PureBuiltIn = 47, "`#[pure]` on a built-in step";
    NameTaken = 48, "two functions of the declaration have the same name";
    UnknownType = 49, "the impl declares a type that is neither `Request` nor `Response`";
    BadFallback = 50, "`fallback` names no async function of the impl";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    FallbackMismatch = 51, "a fallback gives another type than its step";
    UselessOnWait = 52, "a step that waits has a key for steps that run";
    #[allow(dead_code, reason = "found by constant evaluation in `counterstep_steps::declare`")]
    ImpossibleBreaker = 53, "a breaker is impossible";
    UnknownProbe = 54, "`probe` names no function of the impl that can be one";
    UselessProbe = 55, "`probe` on a step that is pure or built-in";
    BadProbe = 56, "a probe is not async, or does not return `StepResult<Probe<Output>>`";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    UnsaidUndo = 57, "a built-in step that the engine cannot undo does not say how it is undone";
    #[allow(dead_code, reason = "found by a bound in `counterstep_steps::declare`")]
    BadUndoCall = 58, "an undo is a plain function that returns no call";
    #[allow(dead_code, reason = "found by constant evaluation in `counterstep_steps::declare`")]
    ImpossibleAutoDisable = 59, "an `auto_disable` policy is impossible";
    NeverRequeued = 60, "`on_lost = \"requeue\"` on a type that is never run again";
    WrongState = 61, "state is taken where there is none, or not as `&State<T>`";
    BadLabel = 62, "a label is not of its form";
    UselessOnTasks = 63, "a step that submits tasks has a key of steps that run";
    #[allow(dead_code, reason = "found by constant evaluation in `counterstep_steps::declare`")]
    ImpossibleLimit = 64, "a limit is impossible";
    NeedsFunction = 65, "a built-in step has a key for code of its own";
    MemoryOfNoProcess = 66, "`memory` on a step without a process of its own";
    UselessFlowKey = 67, "a key of flow control is of no use without another one";
    ReplacesUncancellable = 68, "tasks that others replace cannot be cancelled";
    CannotFinish = 69, "a step is to go on when its worker is cut off and cannot";
    UnguardedOverlap = 70, "a step goes on when its worker is cut off, and nothing guards what it does";
    NoProbe = 71, "`probe_retry` or `on_probe_failure` on a step that has no probe";
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CS{:04}", *self as u32)
    }
}
