#include "espalier/health/names.h"

#include <algorithm>

namespace espalier {
namespace {

struct Word {
  std::string_view segment;
  Role role;
  /// Modules have this name, too: only below a segment that begins with "opt" it is an optimizer's.
  bool is_of_modules = false;
};

// Each of these words has one meaning wherever it is found, and a note says where it comes from.
// What has several ("scale", "mask", "embed") tells nothing.
constexpr Word kWords[] = {
    {"exp_avg_sq", Role::kSquares},        // torch.optim.Adam, and all that are written after it
    {"max_exp_avg_sq", Role::kSquares},    // torch.optim.Adam with amsgrad
    {"exp_avg_sq_row", Role::kSquares},    // transformers.Adafactor
    {"exp_avg_sq_col", Role::kSquares},    // the same
    {"square_avg", Role::kSquares},        // torch.optim.RMSprop and Adadelta
    {"acc_delta", Role::kSquares},         // torch.optim.Adadelta
    {"sum_of_squares", Role::kSquares},    // optax.adagrad
    {"nu", Role::kSquares, true},          // optax.adam
    {"v_hat", Role::kSquares},             // Keras' Adam with amsgrad
    {"second_moment", Role::kSquares},     // written out
    {"running_var", Role::kVariance},      // torch.nn.BatchNorm
    {"moving_variance", Role::kVariance},  // Keras' and Haiku's BatchNormalization
    {"exp_avg", Role::kFirst},             // torch.optim.Adam
    {"momentum_buffer", Role::kFirst},     // torch.optim.SGD and RMSprop
    {"mu", Role::kFirst, true},            // optax.adam
    {"trace", Role::kFirst, true},         // optax.sgd
    {"first_moment", Role::kFirst},        // written out
};

// ASCII only: other letters are in no word that is looked for.
bool is_same(std::string_view segment, std::string_view word) {
  return std::equal(segment.begin(), segment.end(), word.begin(), word.end(), [](char a, char b) {
    return a == b || (a >= 'A' && a <= 'Z' && a - 'A' + 'a' == b);
  });
}

}  // namespace

bool is_one_of(std::string_view segment, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return is_same(segment, word); });
}

std::string unescaped(std::string_view path) {
  std::string name;
  name.reserve(path.size());
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool is_escape = path.substr(i, 2) == "~0" || path.substr(i, 2) == "~1";
    name += !is_escape ? path[i] : path[++i] == '1' ? '/' : '~';
  }
  return name;
}

void for_each_segment(std::string_view path, const std::function<void(std::string_view)>& visit) {
  while (!path.empty()) {
    const std::size_t end = std::min(path.find_first_of("/."), path.size());
    if (end > 0) visit(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
}

Role role_of(std::string_view path) {
  Role role = Role::kPlain;
  bool is_of_optimizer = false;
  for_each_segment(path, [&](std::string_view segment) {
    is_of_optimizer = is_of_optimizer || is_same(segment.substr(0, 3), "opt");
    for (const Word& word : kWords) {
      if (!is_same(segment, word.segment) || (word.is_of_modules && !is_of_optimizer)) continue;
      // The one of squares is the surer.
      role = std::max(role, word.role);
    }
  });
  return role;
}

bool is_mean_name(std::string_view path) {
  return is_one_of(last_segment(path), {"running_mean", "moving_mean"});
}

bool is_step_name(std::string_view path) {
  return is_one_of(last_segment(path), {"step", "steps", "count"});
}

bool is_scale_name(std::string_view path) {
  return last_segment(path).find("scale") != std::string_view::npos;
}

std::string_view last_segment(std::string_view path) {
  const std::size_t before = path.find_last_of("/.");
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

}  // namespace espalier
