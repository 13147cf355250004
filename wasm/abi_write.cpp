// The part of abi.h that writes: builds the owning tree, and makes the pieces of its file.
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "abi.h"
#include "failure.h"

#include "espalier/detail/catalog.h"
#include "espalier/format/header.h"
#include "espalier/value.h"
#include "espalier/write/writer.h"

namespace espalier::abi {

class Write {
 public:
  void set_key(Key key) { key_ = std::move(key); }
  void set_label(std::string label) { label_ = std::move(label); }

  void begin(Kind kind) {
    if (!is_container(kind)) return fail("espalier_write_begin() takes only containers");
    open_.push_back(
        {kind, std::exchange(key_, std::nullopt), std::exchange(label_, std::nullopt), {}, {}});
  }

  void end() {
    if (open_.empty()) return fail("a container ends that was not begun");
    Container done = std::move(open_.back());
    open_.pop_back();
    key_ = std::move(done.key);
    label_ = std::move(done.label);
    switch (done.kind) {
      case Kind::kDict:
        return add(Value::dict(std::move(done.items)));
      case Kind::kRecord:
        return add(Value::record(std::move(done.items)));
      case Kind::kTuple:
        return add(Value::tuple(std::move(done.elements)));
      case Kind::kSet:
        return add(Value::set(std::move(done.elements)));
      default:
        return add(Value::list(std::move(done.elements)));
    }
  }

  void add(Value value) {
    if (label_) value = std::move(value).labelled(std::move(*label_));
    label_.reset();
    if (open_.empty()) {
      roots_.push_back(std::move(value));
    } else if (!has_keys(open_.back().kind)) {
      open_.back().elements.push_back(std::move(value));
    } else if (key_) {
      open_.back().items.emplace_back(std::move(*key_), std::move(value));
    } else {
      fail("a value within a dict or record has no key");
    }
    key_.reset();
  }

  void fail(const char* what) {
    if (!error_) error_ = Error{ErrorCode::kInvalidTree, Error::kNoOffset, {}, what};
  }

  Result<void> plan() {
    if (!error_ && (!open_.empty() || roots_.size() != 2)) {
      fail("a write takes one state and one dict of metadata");
    }
    if (error_) return tl::unexpected<Error>(*error_);
    auto writer = Writer::plan(roots_[0], roots_[1]);
    if (!writer) return propagate(writer);
    writer_.emplace(std::move(*writer));
    roots_.clear();
    return {};
  }

  std::unordered_map<std::uint32_t, std::shared_ptr<const Tensor>> tensors;  // by id
  std::optional<Writer::Front> front;
  Writer::Scratch scratch;
  Writer* writer() { return writer_ ? &*writer_ : nullptr; }

 private:
  struct Container {
    Kind kind;
    std::optional<Key> key;
    std::optional<std::string> label;
    std::vector<Value::Item> items;
    std::vector<Value> elements;
  };

  std::optional<Key> key_;  // of the value that comes next
  std::optional<std::string> label_;
  std::vector<Container> open_;
  std::vector<Value> roots_;
  std::optional<Error> error_;
  std::optional<Writer> writer_;
};

namespace {

std::string string_of(const Text& text) { return {text.data, text.length}; }

TensorData produced_by_host(std::uint32_t id) {
  return TensorData::produced([id](std::uint64_t offset, MutableByteSpan out) -> Result<void> {
    const Status status =
        espalier_produce(id, offset, out.data(), static_cast<std::uint32_t>(out.size()));
    if (status == 0) return {};
    return fail(static_cast<ErrorCode>(status),
                "the array of a tensor was transferred or shrunk while it was written; keep it "
                "unchanged until the write has ended");
  });
}

}  // namespace

Write* espalier_write() { return new Write; }

void espalier_write_text_key(Write* write, const char* key, std::uint32_t length) {
  write->set_key(Key(std::string(key, length)));
}

void espalier_write_int_key(Write* write, std::int64_t key) { write->set_key(Key(key)); }

void espalier_write_label(Write* write, const char* label, std::uint32_t length) {
  write->set_label(std::string(label, length));
}

void espalier_write_begin(Write* write, std::uint32_t kind) {
  write->begin(static_cast<Kind>(kind));
}

void espalier_write_end(Write* write) { write->end(); }

void espalier_write_number(Write* write, std::uint32_t kind, std::uint64_t a, std::uint64_t b) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kNull:
      return write->add(Value::null());
    case Kind::kBool:
      return write->add(Value::boolean(a != 0));
    case Kind::kInt64:
      return write->add(Value::integer(bits_as<std::int64_t>(a)));
    case Kind::kFloat64:
      return write->add(Value::real(bits_as<double>(a)));
    case Kind::kComplex128:
      return write->add(Value::complex({bits_as<double>(a), bits_as<double>(b)}));
    default:
      return write->fail("a number has a kind that is not a number's");
  }
}

void espalier_write_bytes(Write* write, std::uint32_t kind, const std::byte* data,
                          std::uint32_t length) {
  switch (static_cast<Kind>(kind)) {
    case Kind::kString:
      return write->add(Value::string(std::string(reinterpret_cast<const char*>(data), length)));
    case Kind::kBytes:
      return write->add(Value::bytes(std::vector<std::byte>(data, data + length)));
    case Kind::kBigInt: {
      auto integer = BigInt::from_bytes(ByteSpan(data, length));
      if (!integer) return write->fail("an integer has no bytes");
      return write->add(Value::integer(std::move(*integer)));
    }
    default:
      return write->fail("a value has a kind without bytes");
  }
}

void espalier_write_tensor(Write* write, std::uint32_t id, std::uint32_t dtype,
                           const std::uint64_t* shape, std::uint32_t rank,
                           std::uint32_t is_placeholder, const Text* axis_names,
                           std::uint32_t axis_count, const Text* block_name,
                           std::uint32_t block_elements, std::uint32_t block_bytes) {
  auto& known = write->tensors[id];
  if (!known) {
    Tensor tensor;
    // An invalid number becomes a dtype that is refused, not another valid one.
    tensor.dtype = static_cast<DType>(dtype < 256 ? dtype : 0);
    tensor.shape.assign(shape, shape + rank);
    if (is_placeholder == 0) tensor.data = produced_by_host(id);
    for (std::uint32_t i = 0; i < axis_count; ++i) {
      tensor.axis_names.push_back(string_of(axis_names[i]));
    }
    if (block_name != nullptr) tensor.block_name = string_of(*block_name);
    tensor.block_elements = block_elements;
    tensor.block_bytes = block_bytes;
    known = std::make_shared<const Tensor>(std::move(tensor));
  }
  write->add(Value::tensor(known));
}

Status espalier_write_plan(Write* write, std::uint64_t* length, std::uint32_t* pieces) {
  if (auto ok = write->plan(); !ok) return set_failure(std::move(ok.error()));
  *length = write->writer()->file_length();
  *pieces = static_cast<std::uint32_t>(write->writer()->pieces().size()) + 2;
  return 0;
}

Status espalier_write_piece(Write* write, std::uint32_t i, Piece* out) {
  Writer* writer = write->writer();
  const std::size_t count = writer == nullptr ? 0 : writer->pieces().size();
  if (writer == nullptr || i > count + 1) {
    return set_failure(
        {ErrorCode::kInvalidArgument, Error::kNoOffset, {}, "there is no piece with this number"});
  }
  if (i < count) {
    auto bytes = writer->make(i, write->scratch);
    if (!bytes) return set_failure(std::move(bytes.error()));
    *out = {bytes->data(), static_cast<std::uint32_t>(bytes->size()), writer->place(i).offset};
    return 0;
  }
  if (i == count) {
    auto front = writer->finish();
    if (!front) return set_failure(std::move(front.error()));
    write->front = std::move(*front);
  }
  if (!write->front) {
    return set_failure({ErrorCode::kIncomplete,
                        Error::kNoOffset,
                        {},
                        "the header is the last piece of a file, after the index"});
  }
  const ByteSpan bytes = i == count ? write->front->index : ByteSpan(write->front->header);
  *out = {bytes.data(), static_cast<std::uint32_t>(bytes.size()),
          i == count ? std::uint64_t{kHeaderBytes} : 0};
  return 0;
}

void espalier_write_free(Write* write) { delete write; }

}  // namespace espalier::abi
