/// memcache: tables: a cache, and perhaps another table behind it that knows everything.
///
/// A key that the cache does not have is asked of the backup, and what that has is put into the cache. A cache that
/// fails hides no backup: then the backup alone answers. Without backup the failure is the answer.
#include "lib/base/idn/fold.h"
#include "lib/base/text.h"
#include "lib/map/database_description.h"
#include "lib/map/database_look_up.h"
#include "lib/map/database_pool.h"
#include "lib/map/memcache_reply.h"
#include "lib/map/source.h"
#include "lib/map/types.h"
#include "lib/map/utf8.h"

namespace pen::map {
namespace {

using database::Description;
using database::LookUp;
using database::Pools;
using database::Table;

/// Asks the cache, or puts a value into it; then the key is the key, a NUL, and the value.
class CacheSource final : public PooledSource {
 public:
  CacheSource(std::string name, std::shared_ptr<Description> description, bool stores)
      : PooledSource(std::move(name)), description_(std::move(description)), stores_(stores) {}
  std::string lane() const override {
    const auto table = description_->current();
    return table ? (*table)->pool : name();
  }
  std::size_t lane_width() const override { return Pools::of_process().limits().per_pool; }
  Value ask(const std::string& text, SteadyTime since) const override {
    PEN_TRY_ASSIGN(const auto table, description_->current());
    auto question = question_of(text, since);
    if (!question.store) return Pools::of_process().look_up(table, std::move(question.key), since);
    PEN_TRY(Pools::of_process().store(table, std::move(question.key), *std::move(question.store), since));
    return std::nullopt;
  }
  Result<std::shared_ptr<Steps>> begin(const std::string& text, SteadyTime since,
                                       std::function<void()> wake) const override {
    PEN_TRY_ASSIGN(const auto table, description_->current());
    return std::make_shared<LookUp>(Pools::of_process(), table, question_of(text, since), std::move(wake));
  }

 private:
  LookUp::Question question_of(const std::string& text, SteadyTime since) const {
    if (!stores_) return {.key = text, .store = std::nullopt, .since = since};
    const auto nul = text.find('\0');
    return {.key = text.substr(0, nul), .store = text.substr(nul + 1), .since = since};
  }

  std::shared_ptr<Description> description_;
  bool stores_;
};

class MemcacheMap final : public Map {
 public:
  MemcacheMap(std::string spec, const std::string& name, const OpenOptions& options)
      : Map(std::move(spec)),
        fold_(options.fold_keys),
        description_(std::make_shared<Description>("memcache", name, options)),
        get_(std::make_shared<CacheSource>("memcache:" + name, description_, false)),
        set_(std::make_shared<CacheSource>("memcache:" + name + " set", description_, true)) {}
  bool blocking() const override { return true; }

  Value find(std::string_view key) override {
    if (key.size() > kMaxKey || !is_utf8(key)) return std::nullopt;
    PEN_TRY_ASSIGN(const auto table, description_->current());
    const std::string folded = fold_ ? idn::fold(key) : std::string(key);
    PEN_TRY_ASSIGN(const bool asks, table->asks_for(folded));
    if (!asks) return std::nullopt;
    const bool cached = can_have(*table, folded);
    Value known = cached ? answer_from(get_, folded) : Value(std::nullopt);
    if (!known && known.error().is(MapError::pending)) return known;
    if ((known && *known) || !table->backup) return known;
    Value value = table->backup->lookup(key);
    if (!value || !*value || !cached || !known || !fits(*table, **value)) return value;
    // What cannot be put into the cache is asked of the backup the next time, too.
    if (const auto stored = answer_from(set_, folded + '\0' + **value); !stored)
      if (stored.error().is(MapError::pending)) return stored;
    return value;
  }
  std::optional<Error> problem() override {
    const auto table = description_->current();
    if (!table) return table.error();
    return (*table)->backup ? (*table)->backup->problem() : std::nullopt;
  }
  std::vector<std::string> notes() override {
    const auto table = description_->current();
    return table ? (*table)->notes : std::vector<std::string>();
  }
  std::optional<std::uint32_t> owner() override { return description_->owner(); }

 private:
  static bool can_have(const Table& table, const std::string& key) {
    const auto text =
        table.templates.at("key_format").expand(KeyParts(key), [](std::string_view part, std::string& out) {
          out += part;
          return true;
        });
    return text && is_memcache_key(*text);
  }
  static bool fits(const Table& table, const std::string& value) {
    return value.size() <= parse_unsigned(database::setting(table.settings, "data_size_limit")).value_or(0);
  }

  bool fold_;
  std::shared_ptr<Description> description_;
  std::shared_ptr<const Source> get_, set_;
};

}  // namespace

std::shared_ptr<Map> make_memcache(std::string spec, const std::string& name, const OpenOptions& options) {
  return std::make_shared<MemcacheMap>(std::move(spec), name, options);
}

}  // namespace pen::map
