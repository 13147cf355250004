// How long it takes to replace one tensor of a file, beside writing all of the file anew.
#include <filesystem>
#include <vector>

#include "command.h"
#include "report.h"
#include "tensors.h"

#include "espalier/checkpoint_file.h"
#include "espalier/save.h"

namespace espalier::bench {

void edit(const Options& options) {
  const SaveOptions saving = {.sync = !options.no_sync, .threads = options.threads};
  // Synced, so that its write-back does not disturb what is timed.
  must(
      save(options.file, flat_state(options.tensors, options.bytes), {.threads = options.threads}));
  const std::filesystem::path edited = options.file + ".edited.espalier";
  Samples carried_ns, full_ns;
  for (std::uint64_t i = 0; i < 2 * options.repeat; ++i) {
    const bool carry = i % 2 == 0;
    auto start = Clock::now();
    Contents contents = must(load_contents(options.file));
    Value& first = contents.state.children()[0];
    Tensor other = *first.as_tensor();
    other.data = TensorData::owned(
        std::vector<std::byte>(options.bytes / options.tensors, static_cast<std::byte>(i)));
    first = Value::tensor(std::move(other));
    SaveOptions how = saving;
    how.carry = carry;
    must(save(edited, contents, how));
    (carry ? carried_ns : full_ns).push_back(nanoseconds_since(start));
    std::filesystem::remove(edited);
  }
  Report("edit", options.file)
      .with("threads", options.threads)
      .with("bytes", options.bytes)
      .with("edit_ns", carried_ns)
      .with("full_save_ns", full_ns)
      .print();
}

}  // namespace espalier::bench
