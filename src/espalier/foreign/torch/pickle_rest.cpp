#include "espalier/foreign/torch/pickle_rest.h"

#include <cstddef>
#include <cstdint>
#include <utility>

#include "espalier/foreign/pickle/named_code.h"
#include "espalier/foreign/pickle/pickle_graph.h"
#include "espalier/foreign/torch/data_globals.h"

namespace espalier {

std::string describe_rest(ByteSpan rest) {
  NamedCode code(is_data_global);
  bool is_pickle = false;
  while (!rest.empty()) {
    const auto graph = run_pickle(rest, 0);
    if (!graph && graph.error().code == ErrorCode::kTruncated) {
      // Only the first part of a long rest is here. That it names code says that it is a pickle.
      (void)code.add(begun_pickle(rest));
      is_pickle = is_pickle || !code.empty();
    }
    if (!graph || !code.add(*graph)) break;
    is_pickle = true;
    rest = rest.subspan(static_cast<std::size_t>(graph->size()));
  }
  if (!is_pickle) return {};
  std::string text = ", with another pickle";
  if (const auto names = code.summary()) {
    text += ", and loading that would import or call " + *names;
  }
  return text.append("; nothing was run; ").append(kAskAuthor);
}

void add_code(Error& error, const PickleGraph& graph) {
  NamedCode code(is_data_global);
  // A name that is too long to compare says enough by itself.
  (void)code.add(graph);
  const auto names = code.summary();
  if (!names) return;
  error = {error.code, error.offset, std::move(error.path),
           error.message + "; loading this with pickle would import or call " + *names +
               "; nothing was run",
           std::move(error.file)};
}

bool is_of_joblib(const PickleGraph& begun) {
  for (std::uint32_t number = 0; number < begun.object_count(); ++number) {
    const PickleRef ref = PickleRef::object(number);
    if (begun.type(ref) != PickleType::kGlobal) continue;
    const PickleGlobal global = begun.global(ref);
    if (global.module.ends_with("joblib.numpy_pickle") &&
        global.name.ends_with("NumpyArrayWrapper")) {
      return true;
    }
  }
  return false;
}

}  // namespace espalier
