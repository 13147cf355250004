// A save to an object of bytes.
#ifndef ESPALIER_PYTHON_BYTES_SINK_H_
#define ESPALIER_PYTHON_BYTES_SINK_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <shared_mutex>

#include <nanobind/nanobind.h>

#include "espalier/sink.h"

namespace espalier::python {

/// Collects a file in memory, as MemorySink does, but without long steps that Ctrl-C could not end:
/// the system gives its zeros page by page.
class BytesSink : public Sink {
 public:
  Result<void> reserve(std::uint64_t length) override;
  Result<void> write(std::uint64_t offset, ByteSpan bytes) override;
  Result<void> commit() override { return {}; }

  /// The file, once the save is done. To be called within a Call; Ctrl-C ends it.
  nanobind::bytes take();

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  // Makes room for `size` bytes, of which the new ones are zero.
  Result<void> grow(std::size_t size);

  // Threads write at the same time, each its own range; only growing moves the bytes.
  std::shared_mutex mutex_;
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_ = 0;
  std::size_t size_ = 0;
};

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_BYTES_SINK_H_
