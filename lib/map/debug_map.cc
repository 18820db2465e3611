#include "lib/map/debug_map.h"

#include "lib/map/ask.h"
#include "lib/map/table_file.h"
#include "lib/map/types.h"

namespace pen::map {
namespace {

constexpr int kMaxNested = 10;

TellLookUp& teller() {
  static auto* const only = new TellLookUp;  // used by threads that outlive main()
  return *only;
}

class DebugMap final : public Map {
 public:
  DebugMap(std::string spec, std::shared_ptr<Map> inner) : Map(std::move(spec)), inner_(std::move(inner)) {}
  bool blocking() const override { return inner_->blocking(); }
  bool whole_key_only() const override { return inner_->whole_key_only(); }
  std::optional<Error> problem() override { return inner_->problem(); }
  std::vector<std::string> notes() override { return inner_->notes(); }
  std::optional<std::uint32_t> owner() override { return inner_->owner(); }

 private:
  Value find(std::string_view key) override {
    Value value = inner_->lookup(key);
    if (teller() && (value || !value.error().is(MapError::pending))) tell(key, value);
    return value;
  }
  void tell(std::string_view key, const Value& value) const {
    if (Inquiry* inquiry = Inquiry::current(); inquiry != nullptr && !inquiry->first_time(name(), key)) return;
    std::string line = inner_->name() + " lookup: \"" + std::string(key) + "\" = \"";
    line += !value ? "error" : *value ? **value : "not_found";
    line += '"';
    if (!value) line += " (" + value.error().message() + ")";
    teller()(line);
  }

  std::shared_ptr<Map> inner_;
};

}  // namespace

void on_debug_look_up(TellLookUp tell) { teller() = std::move(tell); }

Result<std::shared_ptr<Map>> make_debug(std::string spec, const std::string& name, const OpenOptions& options) {
  if (name.find(':') == std::string::npos) return fail(MapError::bad_spec, spec + ": expected debug:type:name");
  int nested = 0;
  for (std::string_view rest = name; take_adapter(rest); ++nested)
    if (nested == kMaxNested) return fail(MapError::too_large, spec);
  PEN_TRY_ASSIGN(auto inner, open(name, options));
  return std::make_shared<DebugMap>(std::move(spec), std::move(inner));
}

}  // namespace pen::map
