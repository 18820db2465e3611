#include "lib/smtpd/restriction.h"

#include <algorithm>
#include <array>

#include "lib/base/text.h"

namespace pen::smtpd {
namespace {

Check table_check(Stage stage) {
  switch (stage) {
    case Stage::client:
      return Check::check_client_access;
    case Stage::helo:
      return Check::check_helo_access;
    case Stage::sender:
      return Check::check_sender_access;
    default:
      return Check::check_recipient_access;
  }
}

}  // namespace

RestrictionList RestrictionReader::read(Stage stage, const std::vector<std::string>& items) {
  RestrictionList list;
  const auto open_maps = [&](Restriction& r, const std::string& spec) {
    auto maps = map::MapList::open(spec, open_);
    if (maps) {
      r.maps = *std::move(maps);
    } else {
      warnings_.push_back(r.name + " " + spec + ": " + maps.error().message());
      r.check = Check::unknown;
    }
  };
  for (std::size_t i = 0; i < items.size(); ++i) {
    Restriction r;
    r.name = items[i];
    if (const config::RestrictionName* known = config::find_restriction(r.name)) {
      r.check = known->check;
      r.waits = known->waits;
      r.guards_relaying = known->guards_relaying;
      if (r.check == Check::unsupported)
        warnings_.push_back(r.name + " is not supported: mail that reaches it gets 451 4.3.5");
      if (known->takes_argument && ++i == items.size()) {
        warnings_.push_back(r.name + ": no table follows");
        r.check = Check::unknown;
      } else if (known->takes_argument == config::RestrictionName::table && r.check != Check::unsupported) {
        open_maps(r, items[i]);
      }
    } else if (const auto cls = std::ranges::find_if(classes_, [&](const Class& c) { return iequals(c.name, r.name); });
               cls != classes_.end()) {
      r.check = Check::restriction_class;
      r.class_index = static_cast<std::size_t>(cls - classes_.begin());
    } else if (r.name.find(':') != std::string::npos) {
      const std::string spec = r.name;
      r.check = table_check(stage);
      open_maps(r, spec);
    } else {
      warnings_.push_back("unknown smtpd restriction: \"" + r.name + "\"");
    }
    list.push_back(std::move(r));
  }
  if (!list.empty() && list.back().check == Check::warn_if_reject)
    warnings_.push_back("warn_if_reject: no restriction follows");
  return list;
}

std::vector<RestrictionList> RestrictionReader::read_classes() {
  std::vector<RestrictionList> lists;
  for (const auto& c : classes_) lists.push_back(read(Stage::recipient, c.items));
  return lists;
}

bool may_wait(const RestrictionList& list, const std::vector<RestrictionList>& classes, int depth) {
  return std::ranges::any_of(list, [&](const Restriction& r) {
    if (r.check == Check::restriction_class) return depth > 20 || may_wait(classes[r.class_index], classes, depth + 1);
    return r.waits == config::Waits::for_network || r.maps.blocking();
  });
}

bool guards_relaying(const RestrictionList& list) { return std::ranges::any_of(list, &Restriction::guards_relaying); }

}  // namespace pen::smtpd
