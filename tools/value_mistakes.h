#pragma once
/// Values that every program can read and that do not do what was meant: words that a list does not know, malformed
/// next hops, transports that master.cf lacks, settings without the others that they need, tables with actions that
/// nobody knows.
///
/// Use:     for (const ValueMistake& m : value_mistakes(config)) … m.problem, m.advice …
/// Of:      main.cf, the -o of each service, and the texts of tables: their lines are named.
/// Not:     what a program says at its start, as check gathers that (service_faults.h).
/// Thread:  any. Reads files.
#include <string>
#include <vector>

#include "lib/config/config.h"

namespace pen::tools {

struct ValueMistake {
  config::Problem problem;  // with file and line
  std::string advice;       // what to write instead
};
std::vector<ValueMistake> value_mistakes(const config::Config& config);

/// Why "host", "[host]:port", "host:port" cannot be a next hop; empty: it can. Pure.
std::string fault_of_hop(std::string_view hop);
/// Whether a value of an access table is known: an action, a code with text, digits, restrictions or classes. Pure.
bool is_access_action(std::string_view value, const std::vector<std::string>& classes);

}  // namespace pen::tools
