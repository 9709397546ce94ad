//! All registers at once, 32 bytes in one instruction, where the processor has AVX2. The results
//! are those of `portable.rs` to the last bit.
//!
//! The only unsafe code of the crate: that the processor has the instructions is checked when the
//! program runs, and no safe function can call them then; beside that there are loads and stores of
//! arrays. To count the union of three dense values takes 3.2 us with them and 34 us without, the
//! least of 30 runs on an AMD EPYC 7002.

use std::arch::x86_64::{
    __m128i, __m256i, _mm_loadu_si128, _mm_storel_epi64, _mm_storeu_si128, _mm256_add_epi64,
    _mm256_adds_epu8, _mm256_and_si256, _mm256_castsi256_si128, _mm256_cmpeq_epi8,
    _mm256_cmpgt_epi8, _mm256_extract_epi64, _mm256_extracti128_si256, _mm256_loadu_si256,
    _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_max_epu8, _mm256_min_epu8,
    _mm256_movemask_epi8, _mm256_mullo_epi16, _mm256_or_si256, _mm256_permutevar8x32_epi32,
    _mm256_sad_epu8, _mm256_set_m128i, _mm256_set1_epi8, _mm256_set1_epi16, _mm256_set1_epi32,
    _mm256_setr_epi8, _mm256_setr_epi32, _mm256_setzero_si256, _mm256_shuffle_epi8,
    _mm256_srli_epi16, _mm256_storeu_si256, _mm256_sub_epi8,
};

use super::dense::DENSE_BYTES;
use super::estimate::Tally;
use super::{REGISTER_COUNT, RUN_MAX};

/// The bytes of 32 registers in the dense form.
const PACKED: usize = 24;
/// The highest register that adds to the sum by itself alone.
const SUMMED_MAX: u8 = RUN_MAX - 1;
/// A sum of powers of 2 from the lowest register to one so much above is exact: 2^14 of them with
/// so many bits behind the point are what an f64 can hold.
const EXACT_RANGE: u8 = 38;
/// So many values from the lowest one on have their weights in tables.
const NEAR: u8 = 16;
/// Vectors after which counters of one byte are added up: they count to 255.
const COUNTED: usize = 128;

/// The knowledge that the processor has AVX2.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    /// Returns it where it is so.
    #[inline]
    pub fn detected() -> Option<Avx2> {
        is_x86_feature_detected!("avx2").then_some(Avx2(()))
    }

    /// As [`portable::merge`](super::portable::merge).
    #[inline]
    pub fn merge(self, registers: &mut [u8; REGISTER_COUNT], packed: &[u8; DENSE_BYTES]) {
        // SAFETY: it needs AVX2, and there is a `self` only where the processor has it.
        unsafe { merge(registers, packed) }
    }

    /// As [`portable::pack`](super::portable::pack).
    #[inline]
    pub fn pack(self, registers: &[u8; REGISTER_COUNT], packed: &mut [u8; DENSE_BYTES]) {
        // SAFETY: it needs AVX2, and there is a `self` only where the processor has it.
        unsafe { pack(registers, packed) }
    }

    /// As [`portable::tally`](super::portable::tally), for registers of which none is full, and
    /// none is 39 above the lowest but 0; of others there is none.
    #[inline]
    pub fn tally(self, registers: &[u8; REGISTER_COUNT]) -> Option<Tally> {
        // SAFETY: it needs AVX2, and there is a `self` only where the processor has it.
        unsafe { tally(registers) }
    }
}

#[target_feature(enable = "avx2")]
fn merge(registers: &mut [u8; REGISTER_COUNT], packed: &[u8; DENSE_BYTES]) {
    let (vectors, _) = registers.as_chunks_mut();
    let (chunks, _) = packed.as_chunks();
    for (vector, chunk) in vectors.iter_mut().zip(chunks) {
        let larger = _mm256_max_epu8(load(vector), unpacked(chunk));
        store(vector, larger);
    }
}

/// Returns 32 registers as bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn unpacked(chunk: &[u8; PACKED]) -> __m256i {
    // Each half has 12 bytes, the upper one those behind four of the lower.
    let low = chunk.first_chunk().expect("24 bytes begin with 16");
    let high = chunk.last_chunk().expect("24 bytes end with 16");
    let bytes = _mm256_set_m128i(load_half(high), load_half(low));
    // Bytes 0 and 1 of three have registers 0 and 1 of four, bytes 1 and 2 the others.
    #[rustfmt::skip]
    let order = _mm256_setr_epi8(
        0, 1, 1, 2, 3, 4, 4, 5, 6, 7, 7, 8, 9, 10, 10, 11,
        4, 5, 5, 6, 7, 8, 8, 9, 10, 11, 11, 12, 13, 14, 14, 15,
    );
    let pairs = _mm256_shuffle_epi8(bytes, order);
    // The former lie in bits 0 to 11, the latter in bits 4 to 15: all are brought to the latter.
    let pairs = _mm256_mullo_epi16(pairs, _mm256_set1_epi32(0x0001_0010));
    let even = _mm256_and_si256(_mm256_srli_epi16::<4>(pairs), _mm256_set1_epi16(0x003f));
    let odd = _mm256_and_si256(_mm256_srli_epi16::<2>(pairs), _mm256_set1_epi16(0x3f00));
    _mm256_or_si256(even, odd)
}

#[target_feature(enable = "avx2")]
fn pack(registers: &[u8; REGISTER_COUNT], packed: &mut [u8; DENSE_BYTES]) {
    let (vectors, _) = registers.as_chunks();
    let (chunks, _) = packed.as_chunks_mut();
    for (vector, chunk) in vectors.iter().zip(chunks) {
        // The second of two 6 bits up, then the second of two 12 bits up.
        let pairs = _mm256_maddubs_epi16(load(vector), _mm256_set1_epi16(0x4001));
        let fours = _mm256_madd_epi16(pairs, _mm256_set1_epi32(0x1000_0001));
        #[rustfmt::skip]
        let order = _mm256_setr_epi8(
            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
            0, 1, 2, 4, 5, 6, 8, 9, 10, 12, 13, 14, -1, -1, -1, -1,
        );
        let halves = _mm256_shuffle_epi8(fours, order);
        let words = _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 3, 7);
        store_packed(chunk, _mm256_permutevar8x32_epi32(halves, words));
    }
}

#[target_feature(enable = "avx2")]
fn tally(registers: &[u8; REGISTER_COUNT]) -> Option<Tally> {
    let Extent { zeroes, lowest, highest } = extent(registers);
    if zeroes as usize == REGISTER_COUNT {
        return Some(Tally { zeroes, sum: 0.0 });
    }
    if highest > SUMMED_MAX || highest - lowest > EXACT_RANGE {
        return None;
    }
    // The sum of 2^(EXACT_RANGE - (register - lowest)).
    let sum = scaled_sum(registers, lowest) as f64;
    Some(Tally { zeroes, sum: sum * power_of_half(EXACT_RANGE + lowest) })
}

/// Returns 2^-`exponent`.
fn power_of_half(exponent: u8) -> f64 {
    const BIAS: u64 = 1023;
    const MANTISSA_BITS: u32 = 52;
    f64::from_bits((BIAS - u64::from(exponent)) << MANTISSA_BITS)
}

/// What there is among registers.
struct Extent {
    zeroes: u32,
    /// The lowest one that is not 0.
    lowest: u8,
    highest: u8,
}

#[target_feature(enable = "avx2")]
fn extent(registers: &[u8; REGISTER_COUNT]) -> Extent {
    let (zero, one) = (_mm256_setzero_si256(), _mm256_set1_epi8(1));
    let (mut zeroes, mut highest) = (zero, zero);
    // One less than the lowest: 0 is above all others then.
    let mut below_lowest = _mm256_set1_epi8(-1);
    let (vectors, _) = registers.as_chunks();
    for vectors in vectors.chunks(COUNTED) {
        let mut counters = zero;
        for vector in vectors {
            let vector = load(vector);
            counters = _mm256_sub_epi8(counters, _mm256_cmpeq_epi8(vector, zero));
            highest = _mm256_max_epu8(highest, vector);
            below_lowest = _mm256_min_epu8(below_lowest, _mm256_sub_epi8(vector, one));
        }
        zeroes = _mm256_add_epi64(zeroes, _mm256_sad_epu8(counters, zero));
    }
    Extent {
        zeroes: sum_of(zeroes) as u32,
        lowest: bytes_of(below_lowest).into_iter().min().expect("32 bytes").wrapping_add(1),
        highest: bytes_of(highest).into_iter().max().expect("32 bytes"),
    }
}

/// Returns the sum of 2^(EXACT_RANGE - (r - `lowest`)) over all registers r that are not 0.
#[target_feature(enable = "avx2")]
fn scaled_sum(registers: &[u8; REGISTER_COUNT], lowest: u8) -> u64 {
    /// Added to the distance from the lowest one, it sets the highest bit from [`NEAR`] on, also
    /// of what is below the lowest: the tables give 0 then.
    const NEAR_BIAS: u8 = 0x80 - NEAR;
    // 2^(7 - distance) up to 7, and 2^(15 - distance) from 8 to 15.
    #[rustfmt::skip]
    let nearer_weights = _mm256_setr_epi8(
        -128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0,
        -128, 64, 32, 16, 8, 4, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0,
    );
    #[rustfmt::skip]
    let farther_weights = _mm256_setr_epi8(
        0, 0, 0, 0, 0, 0, 0, 0, -128, 64, 32, 16, 8, 4, 2, 1,
        0, 0, 0, 0, 0, 0, 0, 0, -128, 64, 32, 16, 8, 4, 2, 1,
    );
    let zero = _mm256_setzero_si256();
    let origin = _mm256_set1_epi8(lowest as i8);
    let near_bias = _mm256_set1_epi8(NEAR_BIAS as i8);
    let last_near = _mm256_set1_epi8((lowest + NEAR - 1) as i8);
    let (mut nearer, mut farther, mut beyond) = (zero, zero, 0);
    let (vectors, _) = registers.as_chunks();
    for vector in vectors {
        let bytes = load(vector);
        let distances = _mm256_adds_epu8(_mm256_sub_epi8(bytes, origin), near_bias);
        let weights = _mm256_shuffle_epi8(nearer_weights, distances);
        nearer = _mm256_add_epi64(nearer, _mm256_sad_epu8(weights, zero));
        let weights = _mm256_shuffle_epi8(farther_weights, distances);
        farther = _mm256_add_epi64(farther, _mm256_sad_epu8(weights, zero));
        // Few: each value has half as many registers as the one before.
        let mut far = _mm256_movemask_epi8(_mm256_cmpgt_epi8(bytes, last_near)) as u32;
        while far != 0 {
            let register = vector[far.trailing_zeros() as usize];
            beyond += 1 << (EXACT_RANGE - (register - lowest));
            far &= far - 1;
        }
    }
    let near = (sum_of(nearer) << 8) + sum_of(farther);
    (near << (EXACT_RANGE - (NEAR - 1))) + beyond
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_of(words: __m256i) -> u64 {
    let words = [
        _mm256_extract_epi64::<0>(words),
        _mm256_extract_epi64::<1>(words),
        _mm256_extract_epi64::<2>(words),
        _mm256_extract_epi64::<3>(words),
    ];
    words.into_iter().sum::<i64>() as u64
}

#[inline]
#[target_feature(enable = "avx2")]
fn bytes_of(vector: __m256i) -> [u8; 32] {
    let mut bytes = [0; 32];
    store(&mut bytes, vector);
    bytes
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: it reads the 32 bytes of the reference; it asks for no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn load_half(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: it reads the 16 bytes of the reference; it asks for no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; 32], vector: __m256i) {
    // SAFETY: it writes the 32 bytes of the reference; it asks for no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), vector) }
}

/// Writes the first 24 bytes of `vector`.
#[inline]
#[target_feature(enable = "avx2")]
fn store_packed(bytes: &mut [u8; PACKED], vector: __m256i) {
    let (low, high) = bytes.split_at_mut(16);
    // SAFETY: it writes the 16 bytes of the slice; it asks for no alignment.
    unsafe { _mm_storeu_si128(low.as_mut_ptr().cast(), _mm256_castsi256_si128(vector)) };
    // SAFETY: it writes the other 8 bytes; it asks for no alignment.
    unsafe { _mm_storel_epi64(high.as_mut_ptr().cast(), _mm256_extracti128_si256::<1>(vector)) };
}
