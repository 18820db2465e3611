#pragma once
/// The makers of each table type; only map.cc calls them. `name` is what follows "type:".
#include <memory>
#include <string>

#include "lib/map/map.h"

namespace pen::map {

std::shared_ptr<Map> make_lmdb(std::string spec, const std::string& name, const OpenOptions& options);
std::shared_ptr<Map> make_cdb(std::string spec, const std::string& name, const OpenOptions& options);
std::shared_ptr<Map> make_texthash(std::string spec, const std::string& name, const OpenOptions& options);
Result<std::shared_ptr<Map>> make_inline(std::string spec, const std::string& name, const OpenOptions& options);
std::shared_ptr<Map> make_static(std::string spec, const std::string& name);
std::shared_ptr<Map> make_fail(std::string spec);
Result<std::shared_ptr<Map>> make_unix(std::string spec, const std::string& name, const OpenOptions& options);
std::shared_ptr<Map> make_cidr(std::string spec, const std::string& name, const OpenOptions& options);
std::shared_ptr<Map> make_regexp(std::string spec, const std::string& name, const OpenOptions& options);
std::shared_ptr<Map> make_pcre(std::string spec, const std::string& name, const OpenOptions& options);
std::shared_ptr<Map> make_environ(std::string spec);
/// Tables made of tables: inner ones are opened here.
Result<std::shared_ptr<Map>> make_union(std::string spec, const std::string& name, const OpenOptions& options);
Result<std::shared_ptr<Map>> make_pipe(std::string spec, const std::string& name, const OpenOptions& options);
Result<std::shared_ptr<Map>> make_random(std::string spec, const std::string& name);
/// Tables that other processes serve.
Result<std::shared_ptr<Map>> make_socketmap(std::string spec, const std::string& name);
Result<std::shared_ptr<Map>> make_tcp(std::string spec, const std::string& name);
/// A table of a type that is not there: every look-up gives the error.
std::shared_ptr<Map> make_broken(std::string spec, Error why);

/// What is between the outer braces, if there are any.
std::string_view unbraced(std::string_view text);

}  // namespace pen::map
