#pragma once
/// Formats queue entries: Postfix's mailq form and postqueue -j's JSON. Pure.
#include <string>

#include "lib/suite/ipc/queue.h"

namespace pen::tools {

/// The header line of mailq's form, once before the first entry.
std::string mailq_header();
/// The first line of an entry in mailq's form.
std::string mailq_line(const ipc::queue::Entry& e);
/// One entry of mailq's form, with the empty line after it. Times in the local zone.
std::string mailq_entry(const ipc::queue::Entry& e);
/// The last line: "-- 12 Kbytes in 3 Requests."
std::string mailq_footer(std::uint64_t bytes, std::uint64_t entries);
/// One line of JSON with the fields of postqueue -j.
std::string json_entry(const ipc::queue::Entry& e);

}  // namespace pen::tools
