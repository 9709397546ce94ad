//! SHUTDOWN: the end.

use crate::host::ShutdownRequest;
use crate::prelude::*;

const NOT_IN_PROGRESS: CommandError = CommandError::Fixed("ERR No shutdown in progress.");
const FAILED: CommandError = CommandError::Fixed("ERR Errors trying to SHUTDOWN. Check logs.");

pub(super) static SHUTDOWN: Command = Command {
    name: "shutdown",
    summary: "Ends the server.",
    since: "1.0.0",
    group: Group::Server,
    arity: Arity::at_least(1),
    flags: Flags::ADMIN
        .with(Flags::NOSCRIPT)
        .with(Flags::LOADING)
        .with(Flags::STALE)
        .with(Flags::NO_MULTI)
        .with(Flags::ALLOW_BUSY),
    args: &[Arg::one_of(
        "how",
        &[
            Arg::block(
                "end",
                &[
                    Arg::one_of(
                        "save-selector",
                        &[Arg::word("nosave", "NOSAVE"), Arg::word("save", "SAVE")],
                    )
                    .optional(),
                    Arg::word("now", "NOW").optional().since("7.0.0"),
                    Arg::word("force", "FORCE").optional().since("7.0.0"),
                ],
            ),
            Arg::word("abort", "ABORT").since("7.0.0"),
        ],
    )
    .optional()],
    history: &[("7.0.0", "Added the `NOW`, `FORCE` and `ABORT` modifiers.")],
    note: "The dataset is saved with `SAVE`, and without `NOSAVE` where the option `save` says \
           something; writes wait meanwhile. `NOW` changes nothing, as there are no replicas to \
           wait for.",
    example: "> SHUTDOWN ABORT\n(error) ERR No shutdown in progress.",
    handler: Handler::Session(run),
    ..Command::DEFAULT
};

fn run(
    cx: &mut SessionContext<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Unfinished> {
    let wish = Wish::parse(args)?;
    let process = cx.host.process()?;
    let request = match wish {
        Wish::End(request) => request,
        Wish::Abort if process.abort_shutdown() => {
            reply.ok();
            return Ok(Next::Done);
        }
        Wish::Abort => return Err(NOT_IN_PROGRESS.into()),
    };
    // Without a reply where it succeeds, as in Redis: the session just ends.
    process.shutdown(request).map_err(|_| FAILED)?;
    Ok(Next::Close)
}

/// What is asked for.
enum Wish {
    End(ShutdownRequest),
    Abort,
}

impl Wish {
    fn parse(args: Args<'_>) -> Result<Wish, CommandError> {
        let mut request = ShutdownRequest::default();
        if args.len() > 1 && args.from(1).all(|option| option.eq_ignore_ascii_case(b"ABORT")) {
            return Ok(Wish::Abort);
        }
        for option in args.from(1) {
            match (option.to_ascii_uppercase().as_slice(), request.save) {
                (b"SAVE", None | Some(true)) => request.save = Some(true),
                (b"NOSAVE", None | Some(false)) => request.save = Some(false),
                // Does not wait for replicas, of which there are none.
                (b"NOW", _) => {}
                (b"FORCE", _) => request.force = true,
                _ => return Err(CommandError::Syntax),
            }
        }
        Ok(Wish::End(request))
    }
}
