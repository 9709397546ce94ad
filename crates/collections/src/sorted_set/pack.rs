//! The compact form of a sorted set: a listpack in which each member has its score behind it.

use std::cmp::Ordering;

use base::number::parse_short_decimal;

use crate::element::{Element, Needle};
use crate::listpack::{Listpack, ScoreText};
use crate::listpack_view::{At, ListpackView};

#[inline]
pub(super) fn find(pack: ListpackView<'_>, member: &[u8]) -> Option<At> {
    pack.find(pack.first(), &Needle::new(member), 2)
}

pub(super) fn pairs(pack: ListpackView<'_>) -> impl Iterator<Item = (Element<'_>, f64)> {
    let mut parts = pack.iter();
    std::iter::from_fn(move || Some((parts.next()?, score_of(parts.next()?))))
}

/// Puts `member` with `score` in its place in `pack`.
pub(super) fn insert_in_pack(pack: &mut Listpack, member: &[u8], score: f64) {
    let text = ScoreText::new(score);
    let view = pack.view();
    let mut at = view.first();
    while let Some(here) = at {
        let behind = view.next(here).expect("a member has a score");
        if is_behind(view, here, behind, (score, member)) {
            return pack.insert_scored(here, member, &text);
        }
        at = view.next(behind);
    }
    pack.push_back_scored(member, &text);
}

/// Gives `member`, which is at `at` of `pack`, the score `score`: in its place where the order
/// leaves it there.
pub(super) fn change_in_pack(pack: &mut Listpack, at: At, member: &[u8], score: f64) {
    let view = pack.view();
    let own = view.next(at).expect("a member has a score");
    let is_before_next = view.next(own).is_none_or(|next| {
        let of_next = view.next(next).expect("a member has a score");
        is_behind(view, next, of_next, (score, member))
    });
    let is_behind_previous = view.previous(at).is_none_or(|of_previous| {
        let previous = view.previous(of_previous).expect("a score has a member");
        !is_behind(view, previous, of_previous, (score, member))
    });
    if is_before_next && is_behind_previous {
        return pack.replace_score(own, &ScoreText::new(score));
    }
    pack.remove(at, 2);
    insert_in_pack(pack, member, score);
}

/// Returns whether the member at `at`, whose score is at `score_at`, comes behind another one with
/// its score.
#[inline]
fn is_behind(view: ListpackView<'_>, at: At, score_at: At, (score, member): (f64, &[u8])) -> bool {
    let other = score_of(view.get(score_at));
    other > score || other == score && view.get(at).order(member).is_gt()
}

/// Returns the score that `element` is, unless it is none.
#[inline]
pub(super) fn checked_score(element: Element<'_>) -> Option<f64> {
    match element {
        Element::Integer(integer) => Some(integer as f64),
        Element::Bytes(text) => score_of_text(text),
    }
}

/// Compares two members with their scores.
pub(super) fn order_of_pairs(a: &(Element<'_>, f64), b: &(Element<'_>, f64)) -> Ordering {
    let of_scores = a.1.partial_cmp(&b.1).expect("scores are numbers");
    of_scores.then_with(|| b.0.with_bytes(|member| a.0.order(member)))
}

/// Returns `pack` with its members in order.
pub(super) fn in_order(pack: ListpackView<'_>) -> Listpack {
    let mut all: Vec<(Element<'_>, f64)> = pairs(pack).collect();
    all.sort_unstable_by(order_of_pairs);
    // Scores may be written in fewer bytes here, or in more.
    let mut sorted = Listpack::with_capacity(pack.bytes().len());
    for (member, score) in all {
        member.with_bytes(|member| sorted.push_back_scored(member, &ScoreText::new(score)));
    }
    sorted.shrink();
    sorted
}

#[inline]
pub(super) fn score_of(element: Element<'_>) -> f64 {
    checked_score(element).expect("scores are numbers")
}

/// Returns the score that `text` is, where it is a number.
#[inline]
pub(crate) fn score_of_text(text: &[u8]) -> Option<f64> {
    parse_short_decimal(text).or_else(|| {
        let score: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
        (!score.is_nan()).then_some(score)
    })
}

/// Returns the score of the member at `at` of `pack`.
#[inline]
pub(super) fn score_behind(pack: ListpackView<'_>, at: At) -> f64 {
    score_of(pack.get(pack.next(at).expect("a member has a score")))
}
