// Saving trees.
#include "espalier/save.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "c/handles.h"

#include "espalier/foreign/safetensors/writer.h"
#include "espalier/save_foreign.h"
#include "espalier/sink.h"

namespace espalier::c {
namespace {

Result<Unrepresentable> unrepresentable_of(espalier_unrepresentable given) {
  switch (given) {
    case ESPALIER_UNREPRESENTABLE_ERROR:
      return Unrepresentable::kError;
    case ESPALIER_UNREPRESENTABLE_DROP:
      return Unrepresentable::kDrop;
    case ESPALIER_UNREPRESENTABLE_METADATA:
      return Unrepresentable::kMetadata;
  }
  return fail(ErrorCode::kInvalidArgument, "`unrepresentable` is none of the numbers for it");
}

// A sink that functions of the program write to.
class CallbackSink : public Sink {
 public:
  explicit CallbackSink(const espalier_sink& given) : given_(given) {}

  Result<void> reserve(std::uint64_t length) override {
    return given_.reserve == nullptr ? Result<void>()
                                     : check("reserve", given_.reserve(given_.context, length));
  }
  Result<void> write(std::uint64_t offset, ByteSpan bytes) override {
    return check("write", given_.write(given_.context, offset, bytes.data(), bytes.size()));
  }
  Result<void> commit() override { return check("commit", given_.commit(given_.context)); }

 private:
  static Result<void> check(std::string_view function, int status) {
    if (status == 0) return {};
    return fail(ErrorCode::kIoError, "the program's function to " + std::string(function) +
                                         " returned " + std::to_string(status));
  }

  espalier_sink given_;
};

}  // namespace

Result<SaveOptions> options_of(const espalier_save_options* given) {
  const auto taken = take(given);
  if (!taken) return propagate(taken);
  const auto unrepresentable = unrepresentable_of(taken->unrepresentable);
  if (!unrepresentable) return propagate(unrepresentable);
  SaveOptions options;
  if (taken->metadata != nullptr) options.metadata = taken->metadata->value;
  options.sync = taken->no_sync == 0;
  options.replace = taken->no_replace == 0;
  options.threads = threads_of(taken->threads, taken->run, taken->run_context);
  options.compression_level = taken->compression_level;
  options.carry = taken->take_over != 0;
  options.unrepresentable = *unrepresentable;
  options.progress = progress_of(taken->progress, taken->progress_context);
  options.cancel = flag_of(taken->cancel);
  options.memory_bytes = taken->memory_bytes;
  if (taken->most_of_full != 0) options.most_of_full = taken->most_of_full;
  options.patches = taken->no_patches == 0;
  if (auto ok = Arguments().need({taken->bases, taken->base_count}).check(); !ok) {
    return propagate(ok);
  }
  for (std::size_t i = 0; i < taken->base_count; ++i) {
    const auto& [file, name] = taken->bases[i];
    if (auto ok = Arguments().need(file).need(name).check(); !ok) return propagate(ok);
    options.bases.push_back({&file->file, name});
  }
  return options;
}

espalier_saving* saving_of(AsyncSave save) { return new espalier_saving{std::move(save)}; }

Snapshot snapshot_of(int borrows) { return borrows != 0 ? Snapshot::kBorrow : Snapshot::kCopy; }

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
    auto saved = save_safetensors(path, state->value, *how);
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

espalier_status espalier_save_sink(const espalier_sink* sink, const espalier_value* state,
                                   const espalier_save_options* options, espalier_error** error) {
  return guarded(error, Arguments().need(sink).need_value(state), [&]() -> Result<void> {
    const auto target = c::take(sink);
    if (!target) return propagate(target);
    if (target->write == nullptr || target->commit == nullptr) {
      return fail(ErrorCode::kInvalidArgument, "a sink has no `write` or no `commit`");
    }
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    c::CallbackSink callbacks(*target);
    return save(callbacks, state->value, *how);
  });
}

espalier_status espalier_save_memory(const espalier_value* state,
                                     const espalier_save_options* options, espalier_view** out,
                                     espalier_error** error) {
  return guarded(error, Arguments().need_value(state).result(out), [&]() -> Result<void> {
    const auto how = c::options_of(options);
    if (!how) return propagate(how);
    MemorySink sink;
    if (auto ok = save(sink, state->value, *how); !ok) return ok;
    const auto bytes = std::make_shared<const std::vector<std::byte>>(sink.take());
    *out = new espalier_view{Elements<std::byte>(std::span(*bytes), bytes)};
    return {};
  });
}

espalier_status espalier_save_async(const char* path, const espalier_value* state, int borrows,
                                    const espalier_save_options* options, espalier_saving** out,
                                    espalier_error** error) {
  return guarded(
      error, Arguments().need(path).need_value(state).result(out), [&]() -> Result<void> {
        const auto how = c::options_of(options);
        if (!how) return propagate(how);
        *out = c::saving_of(save_async(path, state->value, c::snapshot_of(borrows), *how));
        return {};
      });
}

espalier_status espalier_saving_wait(const espalier_saving* saving, espalier_error** error) {
  return guarded(error, Arguments().need(saving), [&] { return saving->save.wait(); });
}

int espalier_saving_is_done(const espalier_saving* saving) {
  return saving == nullptr || saving->save.is_done() ? 1 : 0;
}

void espalier_saving_progress(const espalier_saving* saving, uint64_t* done, uint64_t* total) {
  const SaveProgress progress = saving == nullptr ? SaveProgress() : saving->save.progress();
  if (done != nullptr) *done = progress.done;
  if (total != nullptr) *total = progress.total;
}

void espalier_saving_cancel(const espalier_saving* saving) {
  if (saving != nullptr) saving->save.cancel();
}

void espalier_saving_free(espalier_saving* saving) { delete saving; }
