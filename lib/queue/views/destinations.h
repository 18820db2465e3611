#pragma once
/// What qmgr says of destinations, as JSON: for pendest --json and penapi. The fields are in docs/api.md.
///
/// Use:     auto j = views::to_json(views::from_qmgr(entry));
/// Pure; any thread.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "lib/queue/destdb/facts.h"
#include "lib/suite/ipc/destinations.h"

namespace pen::views {

/// A destination, from qmgr (live) or from the file.
struct Seen {
  ipc::destinations::Entry entry;
  destdb::Facts facts;
  bool live = false;  // connections, limit and jobs are known
};
Seen from_qmgr(ipc::destinations::Entry entry);

std::string_view class_word(ipc::destinations::Class c);
std::string_view trouble_word(std::uint8_t trouble);
/// "[192.0.2.1]:25": the name of a shown destination that pendest takes; without an address the host's.
std::string order_name(const std::string& shown);

nlohmann::ordered_json to_json(const ipc::destinations::Backend& b);
nlohmann::ordered_json to_json(const Seen& d);
nlohmann::ordered_json to_json(const destdb::Suspension& s);
nlohmann::ordered_json to_json(const ipc::destinations::Explained& e, const std::vector<Seen>& hosts,
                               const ipc::destinations::Backend& backend);
nlohmann::ordered_json to_json(const ipc::destinations::SourceSeen& s);
nlohmann::ordered_json to_json(const ipc::destinations::SourceGroup& g);
nlohmann::ordered_json to_json(const ipc::destinations::LimitSeen& l);
/// On one line, with its end. What is no UTF-8 is replaced.
std::string text_of(const nlohmann::ordered_json& j);

}  // namespace pen::views
