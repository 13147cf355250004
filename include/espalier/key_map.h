// A key map: rules that turn the names and layouts of one framework's checkpoints into another's,
// in both directions. docs/key-maps.md describes the language; mapped_checkpoint.h applies it.
//
//   Result<KeyMap> map = KeyMap::parse(text);
#ifndef ESPALIER_KEY_MAP_H_
#define ESPALIER_KEY_MAP_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/value.h"

namespace espalier {

struct KeyMapParts;
struct MapAdapter;
enum class MapParameters : std::uint8_t;
enum class MapSlot : std::uint8_t;

/// A parsed and checked map. Immutable and cheap to copy; const access is thread-safe.
class KeyMap {
 public:
  /// Most bytes of the text, and most rules.
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;
  static constexpr std::size_t kMaxRules = 10'000;

  /// Parses the JSON text of a map, with comments and trailing commas. kMapInvalid, with a message
  /// that names the rule or the member and says what is wrong.
  [[nodiscard]] static Result<KeyMap> parse(std::string_view text);

  const std::string& name() const;
  /// What it says of itself; may be empty.
  const std::string& description() const;
  /// The rules and all else that it says, for the library's own planner: no public header defines
  /// the type.
  const KeyMapParts& parts() const { return *parts_; }

  /// The map in one spelling: JSON with sorted members, and rules in one spelling.
  std::string canonical() const;
  /// XXH3-128 of canonical(): equal for maps that differ in comments and spelling alone.
  Hash128 hash() const;

 private:
  class Parser;

  explicit KeyMap(std::shared_ptr<const KeyMapParts> parts) : parts_(std::move(parts)) {}

  std::shared_ptr<const KeyMapParts> parts_;
};

/// A key map that comes with the library, and its text, which KeyMap::parse() takes.
struct KnownMap {
  std::string_view name;
  std::string_view text;
};

/// All of them, by name.
std::span<const KnownMap> known_maps();

/// What becomes of tensors that no rule takes.
enum class MapRest : std::uint8_t { kError, kKeep, kDrop };

/// How a map is planned.
struct MapPlanOptions {
  /// Reads names of the right side, and writes those of the left one.
  bool reverse = false;
  /// Leaves out the rules that have no inverse, in place of kMapNotInvertible.
  bool partial = false;
  /// Sizes that count before those of the map, and numbers that are none.
  std::map<std::string, std::uint64_t, std::less<>> sizes = {};
  std::map<std::string, double, std::less<>> numbers = {};
  /// The value of a word of the model's configuration, "text_config.head_dim"; nothing if there is
  /// none.
  std::function<std::optional<double>(const std::string& word)> config = {};
  /// What becomes of leaves that no rule takes, in place of what the map says.
  std::optional<MapRest> rest = std::nullopt;
  // The library sets these three; no public header names the values of their types.
  /// The kind of state along parameters that the leaves are: rules may be unused, dtypes stay, and
  /// arithmetic does what it does to such state. LiftOptions::along says where state lies.
  std::optional<MapSlot> slot = std::nullopt;
  bool scales_moments = false;
  /// Which parameters the leaves are. If they are the weights that an adapter changes, tensors that
  /// a rule lacks are zeros, if their sizes follow from others; dtypes stay; and pieces are told
  /// word by word. LiftOptions::lora says where an adapter lies.
  MapParameters parameters = {};
};

/// A parameter as an optimizer of torch counts it.
struct OptimizerParam {
  /// Its number in "params", which {param#} stands for, and its name.
  std::string number;
  std::string name;
  /// The number of its group.
  std::size_t group = 0;
};

/// What is known of an adapter of LoRA, in the words of PEFT's adapter_config.json.
struct AdapterSettings {
  std::optional<double> alpha = std::nullopt;             // lora_alpha
  std::optional<bool> is_rank_stabilized = std::nullopt;  // use_rslora
  /// fan_in_fan_out: whether weights are [i o].
  std::optional<bool> is_weight_transposed = std::nullopt;
  /// alpha_pattern, in its order.
  std::optional<std::vector<std::pair<std::string, double>>> alphas = std::nullopt;
  /// What is wrong with these words, which counts if an adapter is mapped; or empty.
  std::string problem = {};
  /// The adapter as the map before this one made it. Its modules count before all words.
  std::shared_ptr<const MapAdapter> made = nullptr;
};

/// How a map is planned for a checkpoint, with the state that an optimizer keeps along parameters
/// and with adapters.
struct LiftOptions {
  MapPlanOptions plan = {};
  /// Names before which the map's own begin, on both sides: "model" for "model.layers.0.weight".
  /// All that stands elsewhere is kept, unless it is state along a parameter.
  std::string at = {};
  /// Where state lies, in place of what the map says under "along": names with {param} or {param#},
  /// and {slot}, one for each side with " <-> " between them, or one for both.
  std::vector<std::string> along = {};
  /// The parameters of the optimizer in the order of their groups; those that {param#} stands for.
  /// MappedCheckpoint finds them in the "param_groups" beside the state.
  std::vector<OptimizerParam> params = {};
  /// Where "param_groups" has no names: those of the parameters by number. Without them the
  /// parameters of the checkpoint count in its order, if there are as many.
  std::vector<std::string> param_order = {};
  /// Names in the order in which parameters that are made get numbers; the others follow in that of
  /// the plan. MappedCheckpoint takes it from MappedOptions::like.
  std::vector<std::string> made_order = {};
  /// Where the factors of an adapter lie, in place of what the map says under "lora": names with
  /// {module} and {A|B}, or the name of a framework, one for each side with " <-> " between them,
  /// or one for both. Then the leaves are an adapter of what the map reads.
  std::vector<std::string> lora = {};
  /// What is known of the adapter. MapPlanOptions::sizes and numbers of these words count before.
  AdapterSettings adapter = {};
  /// Words that a number may be given for, though this map has not got them: those of other maps
  /// that the same options are for. Any other such word is kMapInvalid.
  std::set<std::string, std::less<>> other_words = {};
  /// Whether moments of parameters that a rule scales by c are scaled by 1/c and 1/c^2. Without it
  /// such a rule is an error: the learning rate is then another one for these parameters.
  bool scales_moments = false;
};

/// A state that a map makes: one, or one for each label of the names.
struct MapOutput {
  std::string label;
  Value state;
  /// The values that stood in a list or under an integer key and now stand under a text key, which
  /// the inverse gives them, too: their number, and the key path of the first.
  std::uint64_t unlisted = 0;
  std::string first_unlisted = {};
};

/// The numbers of a model's configuration in JSON, such as config.json, for
/// MapPlanOptions::config. "text_config.head_dim" is a member of a member,
/// unless there is a member of that name;
/// true and false are 1 and 0, and a list or an object counts its members. Errors are those of
/// JSON that is not well formed.
[[nodiscard]] Result<std::function<std::optional<double>(const std::string& word)>> numbers_of(
    std::string json);

/// The number that the first one has, or else the second one; both are functions.
std::function<std::optional<double>(const std::string& word)> either(
    std::function<std::optional<double>(const std::string& word)> first,
    std::function<std::optional<double>(const std::string& word)> second);

/// Sets words of a plan: a whole number is a size, and any other one is for arithmetic alone.
/// kInvalidArgument for a number that is not finite.
[[nodiscard]] Result<void> set_numbers(const std::map<std::string, double>& numbers,
                                       MapPlanOptions& plan);

/// The words that a number may be given for: those of the map's rules and sizes, and those of the
/// configuration that it asks for.
std::set<std::string, std::less<>> given_words(const KeyMap& map);

/// Errors are those of JSON that is not well formed.
[[nodiscard]] Result<AdapterSettings> adapter_settings(const std::string& json);

/// The settings that either of two has, the first one before the second.
AdapterSettings either(AdapterSettings first, AdapterSettings second);

}  // namespace espalier

#endif  // ESPALIER_KEY_MAP_H_
