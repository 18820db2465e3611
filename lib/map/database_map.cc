/// The tables mysql:, pgsql:, sqlite:, ldap:, mongodb:, redis: and memcache:, each a file that names a server and a
/// question.
#include "lib/base/idn/fold.h"
#include "lib/map/database_description.h"
#include "lib/map/database_look_up.h"
#include "lib/map/database_modules.h"
#include "lib/map/database_pool.h"
#include "lib/map/database_table.h"
#include "lib/map/source.h"
#include "lib/map/types.h"
#include "lib/map/utf8.h"

namespace pen::map {
namespace {

using database::Description;

// Their client libraries have calls that block only (docs/decisions/023-database-look-ups-in-steps.md).
bool blocks(std::string_view type) { return type == "ldap" || type == "mongodb" || type == "sqlite"; }

class DatabaseSource final : public PooledSource {
 public:
  DatabaseSource(std::string name, std::shared_ptr<Description> description, bool in_steps)
      : PooledSource(std::move(name)), description_(std::move(description)), in_steps_(in_steps) {}
  std::string lane() const override {
    const auto table = description_->current();
    return table ? (*table)->pool : name();
  }
  std::size_t lane_width() const override { return database::Pools::of_process().limits().per_pool; }
  bool in_steps() const override { return in_steps_; }
  Value ask(const std::string& key, SteadyTime since) const override {
    PEN_TRY_ASSIGN(const auto table, description_->current());
    if (!table->needs.met_by(KeyParts(key))) return std::nullopt;  // the file has changed since
    return database::Pools::of_process().look_up(table, key, since);
  }
  Result<std::shared_ptr<Steps>> begin(const std::string& key, SteadyTime since,
                                       std::function<void()> wake) const override {
    PEN_TRY_ASSIGN(const auto table, description_->current());
    if (!table->needs.met_by(KeyParts(key))) return nullptr;
    return std::make_shared<database::LookUp>(
        database::Pools::of_process(), table,
        database::LookUp::Question{.key = key, .store = std::nullopt, .since = since}, std::move(wake));
  }

 private:
  std::shared_ptr<Description> description_;
  bool in_steps_;
};

class DatabaseMap final : public Map {
 public:
  DatabaseMap(std::string spec, const std::string& type, const std::string& name, const OpenOptions& options)
      : Map(std::move(spec)),
        type_(type),
        fold_(options.fold_keys),
        description_(std::make_shared<Description>(type, name, options)),
        source_(std::make_shared<DatabaseSource>(type + ":" + name, description_, !blocks(type))) {}
  bool blocking() const override { return true; }
  Value find(std::string_view key) override {
    if (key.size() > kMaxKey || !is_utf8(key)) return std::nullopt;
    PEN_TRY_ASSIGN(const auto table, description_->current());
    const std::string folded = fold_ ? idn::fold(key) : std::string(key);
    PEN_TRY_ASSIGN(const bool asks, table->asks_for(folded));
    if (!asks) return std::nullopt;
    return answer_from(source_, folded);
  }
  std::optional<Error> problem() override {
    if (const auto table = description_->current(); !table) return table.error();
    if (const auto driver = database::find_driver(type_); !driver) return driver.error();
    return std::nullopt;
  }
  std::vector<std::string> notes() override {
    const auto table = description_->current();
    return table ? (*table)->notes : std::vector<std::string>();
  }
  std::optional<std::uint32_t> owner() override { return description_->owner(); }

 private:
  std::string type_;
  bool fold_;
  std::shared_ptr<Description> description_;
  std::shared_ptr<const Source> source_;
};

}  // namespace

std::shared_ptr<Map> make_database(std::string spec, const std::string& type, const std::string& name,
                                   const OpenOptions& options) {
  return std::make_shared<DatabaseMap>(std::move(spec), type, name, options);
}

}  // namespace pen::map
