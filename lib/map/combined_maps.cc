/// Tables made of other tables (unionmap, pipemap), of a choice of values (randmap), and of the environment.
#include <algorithm>
#include <cstdlib>
#include <mutex>

#include "lib/base/random.h"
#include "lib/base/text.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

constexpr std::size_t kMaxTables = 100;
constexpr int kMaxDepth = 10;  // nesting of braces

class CombinedMap : public Map {
 public:
  CombinedMap(std::string spec, std::vector<std::shared_ptr<Map>> tables)
      : Map(std::move(spec)), tables_(std::move(tables)) {}
  bool blocking() const override {
    return std::ranges::any_of(tables_, [](const auto& t) { return t->blocking(); });
  }
  bool whole_key_only() const override {
    return std::ranges::any_of(tables_, [](const auto& t) { return t->whole_key_only(); });
  }
  std::optional<Error> problem() override {
    for (const auto& table : tables_)
      if (auto problem = table->problem()) return std::move(*problem).within(table->name());
    return std::nullopt;
  }
  std::vector<std::string> notes() override {
    std::vector<std::string> all;
    for (const auto& table : tables_)
      for (std::string& note : table->notes()) all.push_back(std::move(note));
    return all;
  }

 protected:
  std::vector<std::shared_ptr<Map>> tables_;
};

/// All tables' values for the key, joined by commas.
class UnionMap final : public CombinedMap {
 public:
  using CombinedMap::CombinedMap;
  Value find(std::string_view key) override {
    std::optional<std::string> all;
    for (const auto& table : tables_) {
      PEN_TRY_ASSIGN(auto value, table->lookup(key));
      if (!value) continue;
      if (all)
        *all += "," + *value;
      else
        all = std::move(value);
      if (all->size() > kMaxValue) return fail(MapError::too_large, name());
    }
    return all;
  }
};

/// The value in one table is the key for the next.
class PipeMap final : public CombinedMap {
 public:
  using CombinedMap::CombinedMap;
  Value find(std::string_view key) override {
    std::optional<std::string> value(key);
    for (const auto& table : tables_) {
      PEN_TRY_ASSIGN(value, table->lookup(*value));
      if (!value) break;
    }
    return value;
  }
};

class RandomMap final : public Map {
 public:
  RandomMap(std::string spec, std::vector<std::string> values)
      : Map(std::move(spec)), values_(std::move(values)), random_(secure_random_u64()) {}
  bool whole_key_only() const override { return true; }
  Value find(std::string_view) override {
    std::lock_guard lock(mutex_);
    return values_[random_.below(values_.size())];
  }

 private:
  std::vector<std::string> values_;
  std::mutex mutex_;
  Random random_;
};

class EnvironMap final : public Map {
 public:
  using Map::Map;
  explicit EnvironMap(std::string spec) : Map(std::move(spec)) {}
  Value find(std::string_view key) override {
    const char* value = std::getenv(std::string(key).c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  }
};

int depth(std::string_view text) {
  int now = 0, most = 0;
  for (const char c : text) {
    if (c == '{') most = std::max(most, ++now);
    if (c == '}') --now;
  }
  return most;
}

template <class Combined>
Result<std::shared_ptr<Map>> combine(std::string spec, const std::string& name, const OpenOptions& options) {
  if (depth(name) > kMaxDepth) return fail(MapError::too_large, spec);
  std::vector<std::shared_ptr<Map>> tables;
  for (const auto& inner : split_list(unbraced(name))) {
    if (tables.size() == kMaxTables) return fail(MapError::too_large, spec);
    PEN_TRY_ASSIGN(auto table, open(unbraced(inner), options));
    tables.push_back(std::move(table));
  }
  if (tables.empty()) return fail(MapError::bad_spec, spec + ": expected { type:name, … }");
  return std::make_shared<Combined>(std::move(spec), std::move(tables));
}

}  // namespace

Result<std::shared_ptr<Map>> make_union(std::string spec, const std::string& name, const OpenOptions& options) {
  return combine<UnionMap>(std::move(spec), name, options);
}
Result<std::shared_ptr<Map>> make_pipe(std::string spec, const std::string& name, const OpenOptions& options) {
  return combine<PipeMap>(std::move(spec), name, options);
}
Result<std::shared_ptr<Map>> make_random(std::string spec, const std::string& name) {
  std::vector<std::string> values;
  for (const auto& value : split_list(unbraced(name))) values.emplace_back(unbraced(value));
  if (values.empty()) return fail(MapError::bad_spec, spec + ": expected { value, … }");
  return std::make_shared<RandomMap>(std::move(spec), std::move(values));
}
std::shared_ptr<Map> make_environ(std::string spec) { return std::make_shared<EnvironMap>(std::move(spec)); }

}  // namespace pen::map
