//! Prints the journal, as `xfs_logprint` does.
//!
//! There are three views: the records ([`Show::Records`]), the operations in them
//! ([`Show::Operations`]), and the committed transactions with every item decoded
//! ([`Show::Transactions`]). Each goes from tail to head, or over the whole lap ([`Span`]), which
//! also shows what a clean journal held before it was clean.
//!
//! A journal may be 2 GiB long, so nothing is collected: each record is printed as it is read.

mod items;
mod node;

use std::io::{self, Write};

use xfskit_format::log::item::{Item, split};
use xfskit_format::log::op::{self, Op};
use xfskit_format::{Ctx, VerifyResult};
use xfskit_log::record::Crc;
use xfskit_log::{Log, Record, Records, Transaction, Transactions};
use xfskit_units::flags::FlagWord;

use node::{Node, hex};

/// A view of the journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Show {
    /// One line for each record.
    Records,
    /// The operations of each record.
    Operations,
    /// Committed transactions and their items.
    #[default]
    Transactions,
}

/// The part of the journal to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Span {
    /// From tail to head: the part that recovery would replay.
    #[default]
    Active,
    /// From the start of the ring to the head.
    Lap,
}

/// Options of printing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The view.
    pub show: Show,
    /// The part of the journal.
    pub span: Span,
    /// Also prints the bytes of changed buffers and short forms.
    pub data: bool,
    /// Prints one JSON document instead of text.
    pub json: bool,
}

/// The reason why printing ended early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The output failed.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// The journal cannot be read to its end. The part before was printed.
    #[error(transparent)]
    Log(#[from] xfskit_log::Error),
}

/// Prints `log` to `out`.
///
/// # Errors
/// The output fails, or the journal cannot be read to its end. The part before is printed then, and
/// a JSON document is closed.
pub fn print(log: &Log<'_>, options: Options, out: &mut dyn Write) -> Result<(), Error> {
    let mut printer = Printer { out, json: options.json, first: true };
    printer.begin(&state(log), options.show)?;
    let told = tell(log, options, &mut printer);
    printer.end()?;
    told
}

/// Returns the journal's location and state.
fn state(log: &Log<'_>) -> Node {
    let ring = log.ring();
    let mut node = Node::new("log")
        .field("daddr", ring.start().0)
        .field("blocks", ring.blocks())
        .field("tail", log.tail())
        .field("head", log.head())
        .field("state", if log.is_clean() { "clean" } else { "dirty" });
    if let Some(torn) = log.torn() {
        node = node.child(
            Node::new("torn")
                .field("head", torn.head.0)
                .field("record", torn.at.0)
                .field("why", torn.corruption.to_string()),
        );
    }
    node
}

fn tell(log: &Log<'_>, options: Options, printer: &mut Printer<'_>) -> Result<(), Error> {
    let records = match options.span {
        Span::Active => log.records(),
        Span::Lap => lap(log)?,
    };
    if options.show == Show::Transactions {
        return tell_transactions(Transactions::new(records), options, printer);
    }
    for record in records {
        let record = record?;
        let ctx = log.ring().ctx(record.at);
        let mut node = record_node(&record);
        if options.show == Show::Operations {
            for (index, op) in record.ops(&ctx).enumerate() {
                node = node.child(op_node(index, &op.map_err(xfskit_log::Error::from)?));
            }
        }
        printer.node(&node)?;
    }
    Ok(())
}

/// Returns every record from the first that begins on this lap. Those of mkfs have no checksum.
fn lap<'r, 'd>(log: &'r Log<'d>) -> Result<Records<'r, 'd>, Error> {
    let head = log.head().block();
    let first = log.ring().first_record(head)?.unwrap_or(head);
    Ok(Records::new(log.ring(), first, head).crc(Crc::IfPresent))
}

fn tell_transactions(
    mut transactions: Transactions<'_, '_>,
    options: Options,
    printer: &mut Printer<'_>,
) -> Result<(), Error> {
    while let Some(transaction) = transactions.next() {
        let transaction = transaction?;
        let ctx = transactions.ctx(&transaction);
        let regions = transaction.regions();
        let node = transaction_node(&transaction, &regions, &ctx);
        printer.node(&node.map_err(xfskit_log::Error::from)?)?;
        for item in split(regions.get(1..).unwrap_or_default(), &ctx) {
            let item = item.and_then(|regions| Item::decode(regions, &ctx));
            let item = item.map_err(xfskit_log::Error::from)?;
            printer.node(&items::node(&item, ctx.geo, options.data))?;
        }
    }
    Ok(())
}

fn transaction_node(t: &Transaction, regions: &[&[u8]], ctx: &Ctx<'_>) -> VerifyResult<Node> {
    let header = Transaction::header(regions, ctx)?;
    Ok(Node::new("TRANS")
        .field("tid", hex(t.tid))
        .field("lsn", t.lsn)
        .field("commit_lsn", t.commit_lsn)
        .field("type", header.map_or(0, |header| header.r#type.get()))
        .field("num_items", header.map_or(0, |header| header.num_items.get())))
}

fn record_node(record: &Record) -> Node {
    let header = &record.header;
    Node::new("RECORD")
        .field("lsn", record.lsn())
        .field("tail_lsn", header.tail_lsn())
        .field("version", header.version.get())
        .field("len", header.len.get())
        .field("size", header.size.get())
        .field("num_logops", header.num_logops.get())
        .field("prev_block", header.prev_block.get().cast_signed())
        .field("crc", hex(header.crc()))
        .field("fs_uuid", header.fs_uuid().to_string())
}

fn op_node(index: usize, op: &Op<'_>) -> Node {
    let client = match op.header.clientid {
        op::CLIENT_LOG => "LOG",
        _ => "TRANS",
    };
    Node::new("oper")
        .field("index", index)
        .field("offset", op.offset)
        .field("tid", hex(op.header.tid.get()))
        .field("len", op.header.len.get())
        .field("clientid", client)
        .field("flags", op_flags(op))
}

fn op_flags(op: &Op<'_>) -> String {
    let set: Vec<&str> = op.header.flags.names().collect();
    if set.is_empty() { "none".into() } else { set.join("|") }
}

/// Prints nodes one by one, as text or as elements of a JSON array.
struct Printer<'o> {
    out: &'o mut dyn Write,
    json: bool,
    first: bool,
}

impl Printer<'_> {
    fn begin(&mut self, state: &Node, show: Show) -> io::Result<()> {
        if !self.json {
            return write!(self.out, "{state}");
        }
        self.out.write_all(b"{\"log\":")?;
        serde_json::to_writer(&mut self.out, state)?;
        let name = if show == Show::Transactions { "items" } else { "records" };
        write!(self.out, ",\"{name}\":[")
    }

    fn node(&mut self, node: &Node) -> io::Result<()> {
        if !self.json {
            return write!(self.out, "{node}");
        }
        let comma: &[u8] = if self.first { b"\n" } else { b",\n" };
        self.first = false;
        self.out.write_all(comma)?;
        Ok(serde_json::to_writer(&mut self.out, node)?)
    }

    fn end(&mut self) -> io::Result<()> {
        if self.json { self.out.write_all(b"\n]}\n") } else { Ok(()) }
    }
}
