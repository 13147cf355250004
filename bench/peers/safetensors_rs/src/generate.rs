//! Names and contents of made-up tensors.

/// The weights of one transformer layer, in the naming of common language models.
const LAYER: [&str; 9] = [
    "input_layernorm",
    "mlp.down_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "post_attention_layernorm",
    "self_attn.k_proj",
    "self_attn.o_proj",
    "self_attn.q_proj",
    "self_attn.v_proj",
];

/// `model.layers.17.self_attn.q_proj.weight` and the like: different for every index.
pub fn weight_name(index: usize) -> String {
    let (layer, weight) = (index / LAYER.len(), LAYER[index % LAYER.len()]);
    format!("model.layers.{layer}.{weight}.weight")
}

/// Names one level deeper, as in a training checkpoint: each weight, and Adam's two moments of it.
pub fn training_name(index: usize) -> String {
    let weight = weight_name(index / 3);
    match index % 3 {
        0 => format!("state.{weight}"),
        1 => format!("optimizer.state.{weight}.exp_avg"),
        _ => format!("optimizer.state.{weight}.exp_avg_sq"),
    }
}

/// The little-endian bytes of `count` F32 values, evenly spread over -0.5 to 0.5 and never zero.
///
/// Value number i takes the top 24 bits of SplitMix64's i-th output for the seed.
pub fn values(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed;
    let mut bytes = Vec::with_capacity(4 * count);
    for _ in 0..count {
        // An odd numerator is never zero, and 24 bits of it fit an F32 exactly.
        let numerator = 2 * (split_mix(&mut state) >> 40) as i32 + 1 - (1 << 24);
        let value = numerator as f32 / (1 << 25) as f32;
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes
}

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
