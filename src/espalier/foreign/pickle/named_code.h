// The classes and functions that loading a pickle would import or call.
#ifndef ESPALIER_FOREIGN_PICKLE_NAMED_CODE_H_
#define ESPALIER_FOREIGN_PICKLE_NAMED_CODE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/error.h"
#include "espalier/foreign/pickle/pickle_graph.h"
#include "espalier/notes.h"

namespace espalier {

/// What to do with a pickle that names code, for the end of a message. No message advises to load a
/// file with a program that would run it.
inline constexpr std::string_view kAskAuthor = "ask its author for a safetensors or .espalier file";

/// In place of the name of what is called, if that has none.
inline constexpr std::string_view kUnnamedCall = "what another call returns";

/// The module of a class or function; those of Python 2 under their names in Python 3.
std::string_view module_of_global(PickleGlobal global);
/// Whether it is this class or function, by that module.
bool is_global(PickleGlobal global, std::string_view module, std::string_view name);

/// The names of code in pickles, each once, in the order in which they were found.
class NamedCode {
 public:
  /// Says whether a class or function is data: that naming or calling it runs nothing of a
  /// stranger.
  using IsData = bool (*)(PickleGlobal);
  explicit NamedCode(IsData is_data) : is_data_(is_data) {}

  /// Counts every name in `graph` that is not data, wherever it stands: Python imports a class as
  /// soon as it is named, also if it is thrown away. `path` is where the graph stands in the tree.
  /// kLimitExceeded if long names are shared so often that comparing them would take too much.
  [[nodiscard]] Result<void> add(const PickleGraph& graph, const std::string& path = {});
  /// A call that is not understood although its name may be data.
  void add_call(std::string_view name);

  /// Where in the tree a name that was found stands: the first path counts. Making a path costs, so
  /// ask before.
  bool wants_path(std::string_view name) const;
  void set_path(std::string_view name, std::string path);

  bool empty() const { return entries_.empty(); }
  /// "posix.system", or "posix.system and 2 more"; nothing if there is none. With `calls`, of those
  /// that are called.
  std::optional<std::string> summary(bool calls = false) const;
  /// A note of kind kCode for each name.
  void add_to(Notes& notes) const;

 private:
  struct Entry {
    std::string name;
    std::string path = {};
    std::uint64_t named = 0;  // objects of graphs
    std::uint64_t calls = 0;  // the same
    std::uint64_t shown = 0;  // what add_call() told

    bool is_called() const { return calls + shown > 0; }
  };
  // Null beyond those that are told apart.
  Entry* entry(std::string_view name);

  IsData is_data_;
  std::vector<Entry> entries_;
  std::map<std::string, std::size_t, std::less<>> numbers_;
  std::uint64_t others_ = 0;  // names beyond kMaxListed, each time that one is found
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_PICKLE_NAMED_CODE_H_
