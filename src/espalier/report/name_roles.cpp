#include "espalier/report/name_roles.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace espalier {
namespace {

using Words = std::initializer_list<std::string_view>;

// ASCII only: other letters are in no word that is looked for.
std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Calls `visit` with each segment; ends when it returns true, and returns whether it did.
template <class Visit>
bool any_segment(std::string_view path, Visit visit) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of("/."), path.size());
    if (end > 0 && visit(path.substr(0, end))) return true;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return false;
}

bool has_segment(std::string_view path, Words words) {
  return any_segment(path, [&](std::string_view segment) {
    return std::find(words.begin(), words.end(), segment) != words.end();
  });
}

bool has_part(std::string_view path, Words words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return path.find(word) != std::string_view::npos;
  });
}

}  // namespace

bool is_counter_name(std::string_view segment) {
  const std::string name = lower(segment);
  return name == "step" || name == "steps" || name == "count";
}

NameRole role_of(std::string_view given) {
  const std::string path = lower(given);
  // torch.optim, apex and bitsandbytes.
  if (has_segment(path, {"exp_avg_sq", "max_exp_avg_sq", "square_avg", "acc_delta", "state2",
                         "sum_of_squares", "exp_inf", "exp_avg_sq_row", "exp_avg_sq_col"})) {
    return NameRole::kSecondMoment;
  }
  if (has_segment(path, {"exp_avg", "momentum_buffer", "state1", "grad_avg"})) {
    return NameRole::kFirstMoment;
  }
  // optax. Modules have these names, too.
  const bool is_of_optimizer =
      any_segment(path, [](std::string_view segment) { return segment.substr(0, 3) == "opt"; });
  if (is_of_optimizer) {
    if (has_segment(path, {"nu"})) return NameRole::kSecondMoment;
    if (has_segment(path, {"mu", "trace"})) return NameRole::kFirstMoment;
  }
  const std::string_view last = last_segment(path);
  // Only an optimizer's count the same thing.
  if (is_counter_name(last) && (is_of_optimizer || has_segment(path, {"state"}))) {
    return NameRole::kCounter;
  }
  if (has_part(last, {"running_mean", "running_var", "ema_", "moving_"})) return NameRole::kRunning;
  if (has_part(path, {"lora_b", "lora_up", "lora_embedding_b"})) return NameRole::kAdapterOut;
  if (has_part(last, {"mask", "inv_freq", "freqs", "position_ids", "relative_position_index",
                      "window", "basis", "filterbank", "mel_", "kernel_fft", "cos_cached",
                      "sin_cached", "rope", "anchors", "scaling_layer", "shift"})) {
    return NameRole::kConstant;
  }
  if (has_part(path,
               {"stft", "scaling_layer", "rotary", "filter_bank", "mel_scale", "spectrogram"})) {
    return NameRole::kConstant;
  }
  if (has_part(path, {"embed", "emb.", "emb/", "_emb", "wte", "wpe", "position"}))
    return NameRole::kEmbedding;
  return NameRole::kWeight;
}

bool is_vocabulary(std::string_view given) {
  const std::string path = lower(given);
  if (role_of(path) == NameRole::kEmbedding) return true;
  // What a decoder or a head has within it is no vocabulary, but the module itself may be one.
  const std::size_t last = path.size() - last_segment(path).size();
  const std::string_view module = last_segment(std::string_view(path).substr(0, last - (last > 0)));
  return has_segment(module, {"head", "output", "output_layer", "decoder", "classifier"}) ||
         module.ends_with("_head");
}

std::string kind_of(std::string_view path) {
  std::string kind;
  kind.reserve(path.size());
  for (const char c : path) {
    if (!is_digit(c)) {
      kind += c;
    } else if (kind.empty() || kind.back() != '*') {
      kind += '*';
    }
  }
  return kind;
}

std::string_view last_segment(std::string_view path) {
  const std::size_t before = path.find_last_of("/.");
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

}  // namespace espalier
