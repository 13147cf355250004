// How the factors of adapters of LoRA are called and laid out, by framework.
#ifndef ESPALIER_MAP_ADAPTER_NAMES_H_
#define ESPALIER_MAP_ADAPTER_NAMES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/map/name_pattern.h"

namespace espalier {

/// What belongs to a module: the factor that takes the input, the one that gives the output, or a
/// vector along the output: the magnitudes of DoRA.
enum class AdapterPart : std::size_t { kA, kB, kVector };

/// What PEFT puts behind the name of a module that it wraps: other parameters of the module, and
/// further wrappers, stand below it.
inline constexpr std::string_view kBaseLayer = ".base_layer";

/// Names of one side.
struct AdapterNames {
  NamePattern pattern;
  std::size_t words = 0;
  std::size_t module = 0;
  /// The number of the word that chooses the factor; nothing for a vector.
  std::optional<std::size_t> factor;
  /// A is [i r] in place of [r i], B [r o] in place of [o r], the weight [i o] in place of [o i].
  bool is_a_transposed = false;
  bool is_b_transposed = false;
  std::optional<bool> is_weight_transposed;
  /// Whether they are those of PEFT, whose configuration says fan_in_fan_out of the weights.
  bool are_peft = false;
  /// What stands before the name of the module, and before that of any other tensor.
  std::string prefix;

  std::string write(const std::string& of_module, AdapterPart part) const;
};

/// A pair of names; without `write`, the side that is written has none for such tensors.
struct AdapterPlace {
  std::string text;
  AdapterNames read;
  std::optional<AdapterNames> write;
};

/// Parses texts of LiftOptions::lora. kMapInvalid, with a message that says what is wrong.
[[nodiscard]] Result<std::vector<AdapterPlace>> parse_adapter_places(
    const std::vector<std::string>& texts, bool reverse, char read_separator, char write_separator);

}  // namespace espalier

#endif  // ESPALIER_MAP_ADAPTER_NAMES_H_
