#include "python_source.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "kept_object.h"

#include "espalier/base/checked.h"

namespace espalier::python {

namespace nb = nanobind;

namespace {

class PythonSource : public Source {
 public:
  explicit PythonSource(nb::object reader)
      : size_(nb::cast<std::uint64_t>(reader.attr("size"))), reader_(std::move(reader)) {}

  std::uint64_t size() const override { return size_; }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (!range_fits(extent.offset, extent.length, size_)) {
      return fail(ErrorCode::kTruncated, "the file ends before the requested bytes", extent.offset);
    }
    const auto length = static_cast<std::size_t>(extent.length);
    const nb::gil_scoped_acquire acquired;
    const nb::object answer = reader_.get().attr("read")(extent.offset, extent.length);
    char* data = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(answer.ptr(), &data, &size) != 0) throw nb::python_error();
    // The reader is a stranger's code, in part: it must not make us read behind its bytes.
    if (static_cast<std::size_t>(size) != length) {
      return fail(ErrorCode::kFileChanged,
                  "the file system gave " + std::to_string(size) + " bytes of " +
                      std::to_string(length) + "; the file was cut, or it ignores ranges",
                  extent.offset);
    }
    if (length != 0) std::memcpy(scratch.data(), data, length);
    return ByteSpan(scratch.first(length));
  }

  void prefetch(const Extent& extent) const override {
    if (!range_fits(extent.offset, extent.length, size_)) return;
    hint([&] { reader_.get().attr("prefetch")(extent.offset, extent.length); });
  }

  void expect(ReadPattern pattern) const override {
    hint([&] { reader_.get().attr("expect")(pattern == ReadPattern::kSequential); });
  }

 private:
  template <class Call>
  static void hint(const Call& call) {
    const nb::gil_scoped_acquire acquired;
    try {
      call();
    } catch (nb::python_error&) {  // The read that follows has the same trouble, and reports it.
    }
  }

  std::uint64_t size_;
  KeptObject reader_;
};

}  // namespace

std::shared_ptr<const Source> make_python_source(nb::object reader) {
  return std::make_shared<const PythonSource>(std::move(reader));
}

}  // namespace espalier::python
