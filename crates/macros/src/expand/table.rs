//! The declaration as data, and the trait impl that gives it out.

use super::{Expansion, numbered, output_name, written_span};
use crate::check::{Param, Reader, result_argument, written_output};
use crate::text::{as_written, last_segment};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, format_ident, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{LitStr, Path, ReturnType, Signature};

impl Expansion<'_> {
    pub(super) fn table(&self) -> TokenStream {
        let (root, own, task) = (
            self.root.path(),
            &self.declaration.item.self_ty,
            self.task(),
        );
        let (request, response) = (self.request(), self.response());
        let count = self.declaration.steps.len();
        let policies = (0..count).map(|step| self.policies(step));
        let declarations = (0..count).map(|step| self.step(step));
        let code = (0..count).map(|step| self.code(step));
        let outputs = (0..count).filter_map(|step| self.output_of_custom(step));
        let (respond, states) = (numbered("respond", 0), self.states());
        let labels = (!self.declaration.task.labels.is_empty()).then(|| numbered("labels", 0));
        let labels = optional(labels);
        let key = self.declaration.task.flow.key.is_some();
        let key = optional(key.then(|| numbered("key", 0)));
        let name = &self.declaration.task.name;
        quote! {
            #(#policies)*
            #(#outputs)*
            static __COUNTERSTEP_STEPS: &[#root::contracts::StepDecl] = &[#(#declarations),*];
            static __COUNTERSTEP_CODE: &[#root::task::StepCode] = &[#(#code),*];
            static __COUNTERSTEP_STATES: &[#root::state::StateParameter] = &[#(#states),*];
            static __COUNTERSTEP_TASK: #root::contracts::TaskDecl = #task;

            // Of a type that has a schema this one is not used.
            #[allow(unused_imports)]
            use #root::declare::NoSchema as _;

            #[automatically_derived]
            impl #root::DistributedTask for #own {
                type Request = #request;
                type Response = #response;
                const NAME: &'static str = #name;
                fn task_type() -> #root::TaskType {
                    #root::TaskType {
                        decl: &__COUNTERSTEP_TASK,
                        steps: __COUNTERSTEP_CODE,
                        respond: #respond,
                        read_request: #root::task::read_request::<#request>,
                        labels: #labels,
                        key: #key,
                        request_schema: #root::declare::SchemaOf::<#request>::SCHEMA,
                        response_schema: #root::declare::SchemaOf::<#response>::SCHEMA,
                        states: __COUNTERSTEP_STATES,
                    }
                }
            }
        }
    }

    /// What the functions take of the program.
    fn states(&self) -> Vec<TokenStream> {
        let mut states = Vec::new();
        for (reader, params) in self.readings.by_reader() {
            let (step, function) = match reader {
                Reader::Run(step) => (step, Some(self.declaration.steps[step].function)),
                Reader::Undo(step) => (step, self.declaration.undo_of(step)),
                Reader::When(step) => (step, self.declaration.when_of(step)),
                Reader::Fallback(step) => (step, self.declaration.fallback_of(step)),
                Reader::Probe(step) => (step, self.declaration.probe_of(step)),
                Reader::Respond => continue,
            };
            let Some(function) = function else { continue };
            let name = |ident: &Ident| ident.unraw().to_string();
            let step = name(self.declaration.step_name(step));
            let function = name(&self.declaration.functions[function].sig.ident);
            for param in params {
                if let Param::State(ty) = param {
                    let (root, ty) = (self.root.at(ty.span()), self.outside(ty));
                    states.push(quote!(#root::state::StateParameter::of::<#ty>(#step, #function)));
                }
            }
        }
        states
    }

    fn task(&self) -> TokenStream {
        let (root, task) = (self.root.path(), &self.declaration.task);
        let (name, version, queue) = (&task.name, task.version, &task.queue);
        let (timeout, lease) = (duration(task.timeout), duration(task.lease));
        let (max_recoveries, cancellable) = (task.max_recoveries, task.cancellable);
        let (on_lost, on_undo_failure) = (variant(task.on_lost), variant(task.on_undo_failure));
        let auto_disable = optional(task.auto_disable.as_ref().map(|path| {
            let (root, path) = (self.root.at(path.span()), self.outside(path));
            quote!(#root::declare::auto_disable(#path))
        }));
        let labels = task.labels.iter().map(|label| &label.name);
        let flow = self.flow();
        let (request, response) = (as_written(self.request()), as_written(self.response()));
        quote! {
            #root::contracts::TaskDecl {
                name: #name,
                version: #version,
                queue: #queue,
                timeout: #timeout,
                lease: #lease,
                max_recoveries: #max_recoveries,
                on_lost: #root::contracts::OnLost::#on_lost,
                cancellable: #cancellable,
                on_undo_failure: #root::contracts::OnUndoFailure::#on_undo_failure,
                auto_disable: #auto_disable,
                labels: &[#(#labels),*],
                flow: #flow,
                steps: __COUNTERSTEP_STEPS,
                request: #request,
                response: #response,
            }
        }
    }

    fn flow(&self) -> TokenStream {
        let (root, flow) = (self.root.path(), &self.declaration.task.flow);
        let key = optional(flow.key.as_ref().map(|(key, _)| key.value()));
        let beyond = variant(flow.beyond.as_ref().map_or("Wait", |beyond| beyond.variant));
        let debounce = duration(flow.debounce.map(|(millis, _)| millis));
        let concurrency = optional(flow.at_once.map(|(at_once, _)| {
            quote!(#root::contracts::ConcurrencyDecl {
                at_once: #at_once,
                beyond: #root::contracts::Beyond::#beyond,
                debounce: #debounce,
            })
        }));
        let priority = flow.priority.as_ref();
        let priority = variant(priority.map_or("Normal", |priority| priority.variant));
        quote!(#root::contracts::FlowDecl {
            key: #key,
            concurrency: #concurrency,
            priority: #root::contracts::Priority::#priority,
        })
    }

    /// The policies as constants of their own: an impossible one is found here, and said where it
    /// is named.
    fn policies(&self, step: usize) -> TokenStream {
        let (root, declared) = (self.root.path(), &self.declaration.steps[step]);
        let default = if self.declaration.is_custom(step) {
            quote!(NONE)
        } else {
            quote!(BUILT_IN)
        };
        let value = |path: &Option<Path>, default: TokenStream| match path {
            Some(path) => {
                let (root, path) = (self.root.at(path.span()), self.outside(path));
                quote!(#root::declare::policy(#path))
            }
            None => quote!(#root::RetryPolicy::#default),
        };
        let (retry, undo) = (
            value(&declared.retry, default),
            value(&declared.undo_retry, quote!(UNDO)),
        );
        let (retry_name, undo_name) = (policy_name("RETRY", step), policy_name("UNDO_RETRY", step));
        let probe = declared.probe.as_ref().map(|_| {
            // To look again does no harm, so a step that is tried once has its probe tried more often.
            let asked = declared.probe_retry.as_ref().or(declared.retry.as_ref());
            let policy = value(&asked.cloned(), quote!(BUILT_IN));
            let name = policy_name("PROBE_RETRY", step);
            quote!(const #name: #root::RetryPolicy = #policy;)
        });
        let breaker = declared.breaker.as_ref().map(|path| {
            let (name, root, path) = (
                policy_name("BREAKER", step),
                self.root.at(path.span()),
                self.outside(path),
            );
            quote!(const #name: #root::BreakerPolicy = #root::declare::breaker(#path);)
        });
        let limit = declared.limit.as_ref().map(|path| {
            let (name, root, path) = (
                policy_name("LIMIT", step),
                self.root.at(path.span()),
                self.outside(path),
            );
            let labels = self.declaration.task.labels.iter().map(|label| &label.name);
            quote!(const #name: #root::Limit = #root::declare::limit(#path, &[#(#labels),*]);)
        });
        quote! {
            const #retry_name: #root::RetryPolicy = #retry;
            const #undo_name: #root::RetryPolicy = #undo;
            #probe
            #breaker
            #limit
        }
    }

    fn step(&self, step: usize) -> TokenStream {
        let (root, declared) = (self.root.path(), &self.declaration.steps[step]);
        let (number, name) = (
            declared.number,
            self.declaration.step_name(step).unraw().to_string(),
        );
        let host = variant(declared.host.as_ref().map_or("Api", |host| host.variant));
        let custom = self.declaration.is_custom(step);
        let kind = variant(if custom { "Custom" } else { "BuiltIn" });
        let inputs = self.input_table(Reader::Run(step), &self.readings.runs[step]);
        let (output, undo) = (self.output(step), self.undo_decl(step));
        let (waits, fallback) = (self.of_built_in(step, "WAITS"), self.fallback_decl(step));
        let named = |path: &Option<Path>, default: &str, what| {
            let name = path.as_ref().map_or_else(|| default.to_owned(), as_written);
            let policy = policy_name(what, step);
            quote!(#root::declare::NamedPolicy { name: #name, policy: #policy })
        };
        let retry = named(
            &declared.retry,
            if custom { "none" } else { "built-in" },
            "RETRY",
        );
        let undo_retry = named(&declared.undo_retry, "undo", "UNDO_RETRY");
        let breaker = optional(declared.breaker.as_ref().map(|path| {
            let (name, policy) = (as_written(path), policy_name("BREAKER", step));
            quote!(#root::declare::NamedBreaker { name: #name, policy: #policy })
        }));
        let limit = optional(declared.limit.as_ref().map(|_| policy_name("LIMIT", step)));
        let (on_exhausted, timeout) = (variant(declared.on_exhausted), duration(declared.timeout));
        let heartbeat = duration(declared.heartbeat);
        let scratch = optional(declared.scratch);
        let memory = optional(declared.memory.as_ref().map(|(bytes, _)| bytes));
        let isolate = optional(
            (declared.isolate.as_ref())
                .map(|_| quote!(#root::contracts::IsolateDecl { memory: #memory })),
        );
        let group = optional(declared.group.as_ref().map(LitStr::value));
        // A built-in step moves bytes: only its own mark makes it heavy.
        let heavy = declared.heavy || (custom && self.declaration.task.heavy);
        let when_cut_off = declared.when_cut_off.as_ref();
        let when_cut_off = variant(when_cut_off.map_or("Stop", |choice| choice.variant));
        let when = optional(declared.when.as_ref().map(|when| when.unraw().to_string()));
        let when_inputs = match &self.readings.whens[step] {
            Some(params) => self.input_table(Reader::When(step), params),
            None => quote!(&[]),
        };
        let probe = optional(
            declared
                .probe
                .as_ref()
                .map(|probe| probe.unraw().to_string()),
        );
        let asked = declared.probe_retry.as_ref().or(declared.retry.as_ref());
        let probe_retry = optional(
            declared
                .probe
                .as_ref()
                .map(|_| named(&asked.cloned(), "built-in", "PROBE_RETRY")),
        );
        let on_probe_failure = declared.on_probe_failure.as_ref();
        let on_probe_failure = variant(on_probe_failure.map_or("Park", |choice| choice.variant));
        quote! {
            #root::contracts::StepDecl {
                no: #root::contracts::StepNo(#number),
                name: #name,
                host: #root::contracts::Host::#host,
                kind: #root::contracts::StepKind::#kind,
                inputs: #inputs,
                output: #output,
                retry: #retry,
                breaker: #breaker,
                limit: #limit,
                undo: #undo,
                undo_retry: #undo_retry,
                on_exhausted: #root::contracts::OnExhausted::#on_exhausted,
                timeout: #timeout,
                heartbeat: #heartbeat,
                scratch: #scratch,
                isolate: #isolate,
                group: #group,
                heavy: #heavy,
                when_cut_off: #root::contracts::WhenCutOff::#when_cut_off,
                when: #when,
                when_inputs: #when_inputs,
                waits: #waits,
                fallback: #fallback,
                probe: #probe,
                probe_retry: #probe_retry,
                on_probe_failure: #root::contracts::OnProbeFailure::#on_probe_failure,
            }
        }
    }

    fn output(&self, step: usize) -> TokenStream {
        let sig = self.declaration.step_function(step);
        if !self.declaration.is_custom(step) {
            // As written where it stands there: only the tokens know what the author calls the body
            // of a signal or an answer.
            return match (written_output(sig), written_name(sig).as_deref()) {
                (Some(body), Some("AwaitSignal" | "HttpCall")) => {
                    as_written(body).to_token_stream()
                }
                (Some(body), Some("MaybeSignal")) => {
                    format!("Option<{}>", as_written(body)).to_token_stream()
                }
                _ => self.of_built_in(step, "OUTPUT"),
            };
        }
        match (written_output(sig), &sig.output) {
            (Some(output), _) => as_written(output).to_token_stream(),
            // An alias such as `Archived` for `StepResult<Archive>`.
            (None, ReturnType::Type(_, ty)) => as_written(ty).to_token_stream(),
            (None, ReturnType::Default) => "()".to_token_stream(),
        }
    }

    /// How the output of a custom step is stored, and read from what a person supplies; `None`
    /// where its type is not written.
    fn output_of_custom(&self, step: usize) -> Option<TokenStream> {
        let sig = self.declaration.step_function(step);
        let output = result_argument(sig).filter(|_| self.declaration.is_custom(step))?;
        let (name, root, output) = (output_name(step), self.root.path(), self.outside(output));
        Some(
            quote!(const #name: #root::declare::Output<#output> = #root::declare::output::<#output>();),
        )
    }

    /// A constant of a built-in step; nothing for a custom one.
    fn of_built_in(&self, step: usize, constant: &str) -> TokenStream {
        if self.declaration.is_custom(step) {
            return optional(None::<TokenStream>);
        }
        let span = written_span(self.declaration.step_function(step));
        let returned = self.returned(step);
        let (root, constant) = (self.root.at(span), Ident::new(constant, span));
        quote_spanned!(span=> <#returned as #root::BuiltInStep>::#constant)
    }

    fn fallback_decl(&self, step: usize) -> TokenStream {
        let root = self.root.path();
        let fallback = self
            .declaration
            .fallback_of(step)
            .zip(self.readings.fallbacks[step].as_ref());
        optional(fallback.map(|(function, params)| {
            let name = self.declaration.functions[function]
                .sig
                .ident
                .unraw()
                .to_string();
            let inputs = self.input_table(Reader::Fallback(step), params);
            quote!(#root::contracts::FallbackDecl { name: #name, inputs: #inputs })
        }))
    }

    fn undo_decl(&self, step: usize) -> TokenStream {
        let (root, declared) = (self.root.path(), &self.declaration.steps[step]);
        let undo = if let Some(function) = self.declaration.undo_of(step) {
            let name = self.declaration.functions[function]
                .sig
                .ident
                .unraw()
                .to_string();
            quote!(Function { name: #name })
        } else if let Some(reason) = &declared.no_undo {
            quote!(Waived { reason: #reason })
        } else if declared.pure.is_some() {
            quote!(Pure)
        } else {
            return self.of_built_in(step, "UNDO");
        };
        quote!(#root::contracts::UndoDecl::#undo)
    }

    fn code(&self, step: usize) -> TokenStream {
        let (root, run) = (self.root.path(), numbered("run", step));
        let kind = variant(if self.declaration.is_custom(step) {
            "Custom"
        } else {
            "BuiltIn"
        });
        let named = |is_there: bool, what| {
            let name = numbered(what, step);
            if is_there {
                quote!(::core::option::Option::Some(#name))
            } else {
                quote!(::core::option::Option::None)
            }
        };
        let undo = named(self.declaration.undo_of(step).is_some(), "undo");
        let when = named(self.declaration.when_of(step).is_some(), "when");
        let fallback = named(self.declaration.fallback_of(step).is_some(), "fallback");
        let signal = self.of_built_in(step, "READ_SIGNAL");
        let probe = named(self.declaration.probe_of(step).is_some(), "probe");
        let read_output = if self.output_of_custom(step).is_some() {
            let output = output_name(step);
            quote!(#output.supplied)
        } else {
            let span = written_span(self.declaration.step_function(step));
            let (root, output) = (self.root.written_at(span), self.output_type(step));
            quote_spanned!(span=> #root::declare::supplied::<#output>)
        };
        // Spanned as the type is written: what is wrong with it is reported once.
        let span = written_span(self.declaration.step_function(step));
        let (written, output) = (self.root.written_at(span), self.output_type(step));
        let output_schema = quote_spanned!(span=> #written::declare::SchemaOf::<#output>::SCHEMA);
        quote! {
            #root::task::StepCode {
                run: #root::task::Run::#kind(#run),
                undo: #undo,
                when: #when,
                fallback: #fallback,
                signal: #signal,
                probe: #probe,
                read_output: #read_output,
                output_schema: #output_schema,
            }
        }
    }
}

/// The name of what a function returns.
fn written_name(sig: &Signature) -> Option<String> {
    let ReturnType::Type(_, ty) = &sig.output else {
        return None;
    };
    last_segment(ty).map(|segment| segment.ident.to_string())
}

fn policy_name(what: &str, step: usize) -> Ident {
    format_ident!("__COUNTERSTEP_{what}_{step}", span = Span::mixed_site())
}

fn variant(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

fn duration(millis: Option<u64>) -> TokenStream {
    optional(millis.map(|millis| quote!(::core::time::Duration::from_millis(#millis))))
}

fn optional(value: Option<impl ToTokens>) -> TokenStream {
    match value {
        Some(value) => quote!(::core::option::Option::Some(#value)),
        None => quote!(::core::option::Option::None),
    }
}
