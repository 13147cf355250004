// Makes an OnnxModel of the fields of an ONNX file, one after the other.
#ifndef ESPALIER_FOREIGN_ONNX_MODEL_BUILDER_H_
#define ESPALIER_FOREIGN_ONNX_MODEL_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/onnx/fields.h"
#include "espalier/foreign/onnx/model.h"

namespace espalier {

/// A field that is no message, and its place in the file.
struct OnnxFieldAt {
  std::uint32_t number = 0;
  OnnxField::What what = OnnxField::What::kUnknown;
  OnnxNumbers numbers = OnnxNumbers::kNone;
  bool is_bytes = false;
  /// Of a number.
  std::uint64_t value = 0;
  std::uint64_t begin = 0;
  std::uint64_t contents_begin = 0;
  std::uint64_t length = 0;
  /// Of those whose contents are wanted.
  ByteSpan contents = {};

  std::uint64_t end() const { return contents_begin + length; }
};

/// Knows what the fields of the messages mean. Names are those that the graph uses: a flat dict of
/// the initializers and of the outputs of Constant nodes; attributes of other nodes, and graphs in
/// them, as NODE.ATTRIBUTE; functions as DOMAIN::NAME. What returns false has an error(), and the
/// model is no more of use.
class OnnxModelBuilder {
 public:
  /// `text_limit` is for the names that are put together.
  explicit OnnxModelBuilder(std::uint64_t text_limit);

  /// Whether take() needs the contents of such a field.
  bool wants_contents(OnnxMessage message, const OnnxField& field) const;
  /// A message in another one begins at `begin` in the file, or ends.
  bool enter(OnnxMessage parent, OnnxMessage message, std::uint64_t begin);
  bool leave(OnnxMessage parent, OnnxMessage message, std::uint32_t number);
  bool take(OnnxMessage message, const OnnxFieldAt& field);
  bool finish();
  /// In place of entering a node that has no tensors and no graphs.
  void add_idle_node() { ++model_.nodes; }

  /// Puts the model without its tensors into the metadata, unless it is empty.
  void add_copy(std::string copy);

  OnnxModel& model() { return model_; }
  /// Why the last of the functions above returned false. It has no offset.
  Error& error() { return *error_; }

 private:
  // An attribute. Of a Constant, its numbers and texts count, too.
  struct Attribute {
    OnnxText name = {};
    std::vector<std::pair<std::uint32_t, OnnxEntry>> values = {};  // with the fields they are in
    std::optional<OnnxTensor> numbers = std::nullopt;
    std::uint64_t count = 0;
    std::vector<OnnxEntry> texts = {};
  };
  struct Node {
    std::size_t texts_begin = 0;
    OnnxText name = {};
    OnnxText output = {};
    OnnxText type = {};
    OnnxText domain = {};
    std::vector<Attribute> attributes = {};
    bool has_missed = false;
  };
  struct Sparse {
    OnnxText name = {};
    std::optional<OnnxEntry> values = std::nullopt;
    std::optional<OnnxEntry> indices = std::nullopt;
    std::vector<std::uint64_t> dims = {};
  };
  struct External {
    std::optional<std::uint32_t> file = std::nullopt;
    std::optional<std::uint64_t> offset = std::nullopt;
    std::optional<std::uint64_t> length = std::nullopt;
  };

  bool bad(std::string_view message, ErrorCode code = ErrorCode::kForeignInvalid);
  bool take_text(OnnxMessage message, const OnnxFieldAt& field);
  void take_number(OnnxMessage message, const OnnxFieldAt& field);
  bool take_dims(const OnnxFieldAt& field, std::vector<std::uint64_t>& dims);
  bool take_data(const OnnxFieldAt& field);
  bool take_attribute_numbers(const OnnxFieldAt& field);
  bool take_external(std::string_view key, std::string_view value);
  std::optional<OnnxEntry> finish_tensor();
  bool finish_external();
  std::optional<OnnxEntry> finish_sparse();
  bool leave_tensor(OnnxMessage parent, std::uint32_t number);
  void leave_graph(OnnxMessage parent, std::uint32_t number);
  void leave_attribute(OnnxMessage parent);
  void leave_node();
  void leave_function();
  bool leave_pair(OnnxMessage parent);
  void leave_opset();
  std::optional<OnnxEntry> constant_value(Attribute& attribute);
  void add_attribute(const Attribute& attribute, OnnxText key);
  OnnxText key_of(const Node& node, const Attribute& attribute);

  bool is_constant(const Node& node) const;
  bool is_in_constant() const { return !nodes_.empty() && is_constant(nodes_.back()); }
  std::string_view text(OnnxText piece) const { return model_.text(piece); }
  OnnxText keep(std::string_view text);
  OnnxText compose(std::initializer_list<OnnxText> parts, std::string_view between);
  std::uint32_t add_container(Kind kind, std::string_view label = {});
  bool drop_if_empty(std::uint32_t container);
  void put(std::uint32_t container, OnnxText key, OnnxEntry value);
  void put_number(std::uint32_t container, std::string_view key, std::uint64_t value);
  void put_text(std::uint32_t container, std::string_view key, OnnxText text);
  OnnxEntry list_of(std::span<const std::uint64_t> numbers);
  OnnxEntry strings(std::span<const std::uint64_t> shape, std::vector<OnnxEntry> values);

  OnnxModel model_;
  std::vector<std::uint32_t> scopes_;  // of the graphs and functions that are read
  std::uint32_t graphs_ = 0;           // inside each other
  std::vector<Node> nodes_;
  std::vector<Attribute> attributes_;
  Sparse sparse_;
  // Of the tensor that is read.
  OnnxTensor tensor_;
  std::vector<OnnxEntry> tensor_strings_;
  std::uint64_t data_location_ = 0;
  External external_;
  bool has_external_ = false;
  // Of the small messages.
  std::size_t pair_begin_ = 0;
  OnnxText pair_key_;
  OnnxText pair_value_;
  OnnxText opset_domain_;
  std::uint64_t opset_version_ = 0;
  OnnxText function_name_;
  OnnxText function_domain_;
  OnnxText function_overload_;

  std::uint32_t opsets_ = 0;      // a container of the metadata, once there is one
  std::uint32_t properties_ = 0;  // likewise
  std::uint64_t trainings_ = 0;
  std::map<std::string, std::uint32_t, std::less<>> files_;
  std::set<std::pair<std::uint32_t, std::string>> used_;  // keys of attributes by their scopes
  std::uint64_t composable_;                              // bytes left
  bool is_composed_too_much_ = false;
  bool has_graph_ = false;
  std::optional<Error> error_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_ONNX_MODEL_BUILDER_H_
