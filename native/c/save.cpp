// Saving trees.
#include "espalier/save.h"

#include "handles.h"

#include "espalier/foreign/safetensors/writer.h"
#include "espalier/save_foreign.h"

namespace espalier::c {
namespace {

Result<SaveOptions> options_of(const espalier_save_options* given) {
  const auto taken = take(given);
  if (!taken) return propagate(taken);
  SaveOptions options;
  if (taken->metadata != nullptr) options.metadata = taken->metadata->value;
  options.sync = taken->no_sync == 0;
  options.replace = taken->no_replace == 0;
  options.threads = taken->threads;
  options.compression_level = taken->compression_level;
  options.carry = taken->take_over != 0;
  options.progress = progress_of(taken->progress, taken->progress_context);
  return options;
}

Result<Unrepresentable> unrepresentable_of(const espalier_save_options* given) {
  const auto taken = take(given);
  if (!taken) return propagate(taken);
  switch (taken->unrepresentable) {
    case ESPALIER_UNREPRESENTABLE_ERROR:
      return Unrepresentable::kError;
    case ESPALIER_UNREPRESENTABLE_DROP:
      return Unrepresentable::kDrop;
    case ESPALIER_UNREPRESENTABLE_METADATA:
      return Unrepresentable::kMetadata;
  }
  return fail(ErrorCode::kInvalidArgument, "`unrepresentable` is none of the numbers for it");
}

}  // namespace
}  // namespace espalier::c

using namespace espalier;
using espalier::c::Arguments;
using espalier::c::guarded;

espalier_status espalier_save(const char* path, const espalier_value* state,
                              const espalier_save_options* options, espalier_error** error) {
  return guarded(error, Arguments().need(path).need_value(state), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    return how ? save(path, state->value, *how) : propagate(how);
  });
}

espalier_status espalier_save_safetensors(const char* path, const espalier_value* state,
                                          const espalier_save_options* options,
                                          espalier_error** error) {
  return guarded(error, Arguments().need(path).need_value(state), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    const auto unrepresentable = c::unrepresentable_of(options);
    if (!unrepresentable) return propagate(unrepresentable);
    auto saved = save_safetensors(path, state->value, *unrepresentable, *how);
    if (saved) return {};
    std::string& message = saved.error().message;
    if (message.ends_with(kUnrepresentableHint)) {
      message.resize(message.size() - kUnrepresentableHint.size());
      message +=
          "; with `unrepresentable` of the options, carry the whole tree in the file's metadata, "
          "or "
          "leave out what does not fit";
    }
    return propagate(saved);
  });
}
