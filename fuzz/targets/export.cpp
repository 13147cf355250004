// Exports the contents of a file to safetensors, under every policy. Every export must be a valid
// file, and carried trees must be restored exactly.
#include <algorithm>

#include "fuzz.h"
#include "support/equal.h"
#include "support/memory_file.h"

#include "espalier/foreign/safetensors/carried_tree.h"
#include "espalier/foreign/safetensors/opener.h"
#include "espalier/foreign/safetensors/writer.h"
#include "espalier/read/to_value.h"

namespace espalier::fuzz {
namespace {

std::vector<std::byte> bytes_of(const SafetensorsPlan& plan) {
  std::vector<std::byte> file(static_cast<std::size_t>(plan.file_length));
  std::ranges::copy(plan.header, file.begin());
  for (const SafetensorsTensor& tensor : plan.tensors) {
    const auto place =
        MutableByteSpan(file).subspan(static_cast<std::size_t>(tensor.extent.offset),
                                      static_cast<std::size_t>(tensor.extent.length));
    require(tensor.data.read(0, place).has_value(), "a planned tensor cannot be read");
  }
  return file;
}

void check_export(const Value& state, const Value& metadata, Unrepresentable policy) {
  const auto plan = plan_safetensors(state, metadata, {.unrepresentable = policy});
  if (!plan) return;
  const auto file = bytes_of(*plan);
  SafetensorsOpener opener({.file_size = file.size()});
  require(opener.feed({0, 0, file.size()}, file).has_value(), "an exported file cannot be read");
  const auto checkpoint = opener.finish();
  require(checkpoint.has_value(), "an exported file is not valid");
  if (policy != Unrepresentable::kMetadata || !plan->carries_tree) return;
  const auto flat = testing::load_tree(file, checkpoint->state());
  require(flat.has_value(), "an exported file cannot be loaded");
  const auto restored = restore_carried(*flat, to_value(checkpoint->metadata()));
  require(restored && *restored, "a carried tree does not come back");
  require(testing::first_difference((*restored)->state, state).empty(), "a carried state differs");
}

}  // namespace
}  // namespace espalier::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace espalier;
  const auto file = fuzz::copy_input(data, size);
  const auto checkpoint = fuzz::open_any(file);
  if (!checkpoint || !fuzz::is_one_file(*checkpoint)) return 0;
  const auto state = testing::load_tree(file, checkpoint->state());
  if (!state) return 0;
  const Value metadata = to_value(checkpoint->metadata());
  for (const auto policy :
       {Unrepresentable::kError, Unrepresentable::kDrop, Unrepresentable::kMetadata}) {
    fuzz::check_export(*state, metadata, policy);
  }
  // Another program's file may carry its own tree.
  static_cast<void>(restore_carried(*state, metadata));
  return 0;
}
