#pragma once
/// Which messages a request is about: the choices of penqueue and pensuper, from a query or a JSON body.
///
/// Errors:  a sentence for the client; empty: none.
/// Pure; any thread.
#include <cstdint>
#include <expected>
#include <map>
#include <string>

#include "lib/suite/ipc/queue.h"

namespace pen::api {

/// Takes sender, recipient, domain, older (seconds), reply and state (words divided by commas) out of a query.
std::string take_filter(std::map<std::string, std::string>& query, ipc::queue::Filter& filter);
/// Takes a number of at most `most` out of it.
std::expected<std::uint64_t, std::string> take_number(std::map<std::string, std::string>& query, const char* name,
                                                      std::uint64_t otherwise, std::uint64_t most);
/// The body of an order: {"ids": […]} or {"all": true} or {"filter": {…}}, and perhaps "dry_run". Nothing at all is
/// refused, for it might mean everything.
std::expected<ipc::queue::Act, std::string> order_of(std::string_view body, ipc::queue::Verb verb);

}  // namespace pen::api
