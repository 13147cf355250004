// The state that a PyTorch training run saves, with everything that other formats lose on the way.
#include <string>
#include <vector>

#include "support/equal.h"
#include "support/memory_file.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

using testing::bytes_of;

Value tensor(DType dtype, std::vector<std::uint64_t> shape, std::vector<std::byte> bytes) {
  Tensor made;
  made.dtype = dtype;
  made.shape = std::move(shape);
  made.data = TensorData::owned(std::move(bytes));
  return Value::tensor(std::move(made));
}

Value torch_state() {
  Tensor embedding;
  embedding.dtype = DType::kBF16;
  embedding.shape = {2, 3};
  embedding.data =
      TensorData::owned(bytes_of<std::uint16_t>({0x3F80, 0xBF80, 0x0000, 0x8000, 0x7FC1, 0xFF80}));
  const auto tied = std::make_shared<const Tensor>(std::move(embedding));

  Value optimizer_state = Value::dict();
  for (const int parameter : {3, 0, 12, -1}) {
    optimizer_state.add(parameter,
                        Value::dict({{"step", tensor(DType::kF32, {}, bytes_of({1000.0f}))},
                                     {"exp_avg", tensor(DType::kF32, {2}, bytes_of({0.5f, -0.0f}))},
                                     {"max_exp_avg_sq", Value::null()}}));
  }
  return Value::dict({
      {"model",
       Value::dict({{"decoder.weight", Value::tensor(tied)},
                    {"embedding.weight", Value::tensor(tied)},
                    {"scale", tensor(DType::kF8E4M3FN, {4},
                                     bytes_of<std::uint8_t>({0x00, 0x80, 0x7F, 0x38}))},
                    {"unused", tensor(DType::kF32, {0, 5}, {})},
                    {"num_batches_tracked", tensor(DType::kI64, {}, bytes_of<std::int64_t>({77}))}})
           .labelled("collections.OrderedDict")},
      {"optimizer",
       Value::dict({{"state", std::move(optimizer_state)},
                    {"param_groups",
                     Value::list({Value::dict(
                         {{"lr", Value::real(1e-3)},
                          {"betas", Value::tuple({Value::real(0.9), Value::real(0.999)})},
                          {"foreach", Value::null()},
                          {"amsgrad", Value::boolean(false)},
                          {"params", Value::list({Value::integer(0), Value::integer(3)})}})})}})},
      {"rng", Value::dict({{"seed", Value::integer(*BigInt::from_decimal(
                                        "-170141183460469231731687303715884105728"))},
                           {"cuda", Value::list()},
                           {"state", Value::bytes(bytes_of<char>({'\0', '\xFF'}))}})},
      {"lookalikes", Value::dict({{"0", Value::string("text")}, {0, Value::string("int")}})},
      {"size", Value::tuple({Value::integer(2), Value::integer(3)}).labelled("torch.Size")},
      {"epoch", Value::integer(0)},
  });
}

TEST_CASE("A torch-style state survives exactly, the order of its keys included") {
  const Value state = torch_state();
  const auto file = testing::write_file(state);
  REQUIRE(file);
  const auto checkpoint = testing::open_file(*file);
  REQUIRE(checkpoint);
  const auto loaded = testing::load_tree(*file, checkpoint->state());
  REQUIRE(loaded);
  CHECK(testing::first_difference(state, *loaded) == "");

  // Checks the assumptions of the comparison directly.
  std::vector<std::string> order;
  const NodeRef optimizer = *checkpoint->state().at("optimizer/state");
  for (std::uint32_t i = 0; i < optimizer.size(); ++i) {
    CHECK(optimizer.key(i).is_int);
    order.push_back(std::to_string(optimizer.key(i).integer));
  }
  CHECK(order == std::vector<std::string>{"3", "0", "12", "-1"});
  CHECK(loaded->find("model")->label() == "collections.OrderedDict");
  CHECK(loaded->find("model")->find("decoder.weight")->as_tensor() ==
        loaded->find("model")->find("embedding.weight")->as_tensor());
  CHECK(checkpoint->state().at("lookalikes/0")->as_string() == "int");
  CHECK(checkpoint->state().at("lookalikes/~20")->as_string() == "text");
  CHECK(checkpoint->state().at("rng/seed")->as_bigint()->to_decimal() ==
        "-170141183460469231731687303715884105728");
  CHECK(checkpoint->state().at("optimizer/param_groups/0/betas")->kind() == Kind::kTuple);
  CHECK(checkpoint->state().at("model/unused")->tensor()->bytes() == 0);
  CHECK(checkpoint->state().at("model/num_batches_tracked")->tensor()->shape().empty());
}

TEST_CASE("The comparison of trees detects differences") {
  const Value state = torch_state();
  CHECK(testing::first_difference(state, torch_state()) == "");
  CHECK(testing::first_difference(Value::integer(1), Value::real(1)) ==
        "in the root: int64 and float64");
  CHECK(testing::first_difference(Value::list({Value::real(0.0)}),
                                  Value::list({Value::real(-0.0)})) == "in 0: floats");
  CHECK(testing::first_difference(Value::null().labelled(""), Value::null()) ==
        "in the root: labels");
  CHECK(testing::first_difference(Value::dict({{"a", Value::null()}, {"b", Value::null()}}),
                                  Value::dict({{"b", Value::null()}, {"a", Value::null()}})) ==
        "in the root: keys, or their order");
  CHECK(testing::first_difference(Value::dict({{"0", Value::null()}}),
                                  Value::dict({{0, Value::null()}})) != "");
  const Value one = tensor(DType::kU8, {1}, bytes_of<char>({'a'}));
  const Value same = tensor(DType::kU8, {1}, bytes_of<char>({'a'}));
  const Value other = tensor(DType::kU8, {1}, bytes_of<char>({'b'}));
  CHECK(testing::first_difference(one, same) == "");
  CHECK(testing::first_difference(one, other) == "in the root: tensor bytes");
  CHECK(testing::first_difference(Value::list({one, one}), Value::list({one, same})) ==
        "in 1: ties");
  CHECK(testing::first_difference(Value::list({one, same}), Value::list({one, one})) ==
        "in 1: ties");
}

}  // namespace
}  // namespace espalier
