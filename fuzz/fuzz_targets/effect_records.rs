//! Bytes as records of effects: a record or an error, never a panic; what is read can be written
//! again and is the same; and no record makes a consumer panic.
#![no_main]

#[path = "../step.rs"]
mod step;

use effects::{
    Filter, Record, RecordBuilder, RecordError, RecordView, ReplicationStream, keyspace_events,
};
use libfuzzer_sys::fuzz_target;

use step::Step;

fuzz_target!(|input: &[u8]| {
    let _step = Step::begin(input);
    let mut rest = input;
    let mut stream = ReplicationStream::new();
    loop {
        let record = match RecordView::read(rest) {
            Ok(record) => record,
            Err(RecordError::Incomplete { needed }) => {
                assert!(needed > rest.len() as u64, "more is needed than there is");
                return;
            }
            Err(_) => return,
        };
        check(&record, &mut stream);
        rest = &rest[record.header().length as usize..];
    }
});

fn check(record: &RecordView<'_>, stream: &mut ReplicationStream) {
    let (header, mut text) = (record.header(), Vec::new());
    stream.write(record, &mut text);
    let filter = Filter { slots: Some(0..=8000), key_prefix: b"k".to_vec(), ..Filter::default() };
    let (mut builder, mut bytes) = (RecordBuilder::default(), Vec::new());
    for change in record.changes() {
        keyspace_events(&change);
        filter.accepts(&change);
        builder.add(header.time, &change);
        let mut alone = Vec::new();
        Record::one(header.time, &change).encode(base::Lsn(0), &mut alone);
        let again = RecordView::read(&alone).expect("what is written can be read");
        assert!(again.changes().eq([change]));
    }
    let Some(rebuilt) = builder.finish() else { return };
    rebuilt.encode(base::Lsn(0), &mut bytes);
    let again = RecordView::read(&bytes).expect("what is written can be read");
    assert!(again.changes().eq(record.changes()));
}
