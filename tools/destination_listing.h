#pragma once
/// Formats what pendest prints: destinations, suspensions and explanations, as text; lib/queue/views has them as JSON.
///
/// Facts from destdb and entries from qmgr are both converted to Seen first.
/// Pure but for the local time zone; any thread.
#include <string>

#include "lib/queue/destdb/facts.h"
#include "lib/queue/views/destinations.h"
#include "lib/suite/ipc/destinations.h"

namespace pen::tools {

using views::from_qmgr;
using views::Seen;
/// suspensions: those of the file, which together with the facts decide the state at `now`.
Seen from_file(const std::string& key, const destdb::Facts& facts, const destdb::Suspensions& suspensions,
               WallTime now);

/// Where the knowledge comes from, in one line. list and show print it only if hosts share; explain always does.
std::string backend_text(const ipc::destinations::Backend& b);
std::string list_header();
std::string list_line(const Seen& d);
std::string list_line(const destdb::Suspension& s);
std::string show_text(const Seen& d);
std::string show_text(const destdb::Suspension& s);
std::string explain_text(const ipc::destinations::Explained& e, const std::vector<Seen>& hosts,
                         const ipc::destinations::Backend& backend, WallTime now);

/// Of a limit that is of no destination.
std::string limit_line(const ipc::destinations::LimitSeen& l);
std::string source_header();
std::string source_line(const ipc::destinations::SourceSeen& s);
/// Below its source's.
std::string source_line(const ipc::destinations::SourceGroup& g);

/// One line of JSON.
std::string json_line(const ipc::destinations::SourceSeen& s);
std::string json_line(const ipc::destinations::SourceGroup& g);
std::string json_line(const ipc::destinations::LimitSeen& l);
std::string json_line(const ipc::destinations::Backend& b);
std::string json_line(const Seen& d);
std::string json_line(const destdb::Suspension& s);
std::string json_line(const ipc::destinations::Explained& e, const std::vector<Seen>& hosts,
                      const ipc::destinations::Backend& backend);

}  // namespace pen::tools
