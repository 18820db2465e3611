#pragma once
/// The makers of each table type; only map.cc calls them. `name` is the text after "type:".
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
/// Tables made of other tables: the makers open the inner ones.
Result<std::shared_ptr<Map>> make_union(std::string spec, const std::string& name, const OpenOptions& options);
Result<std::shared_ptr<Map>> make_pipe(std::string spec, const std::string& name, const OpenOptions& options);
Result<std::shared_ptr<Map>> make_random(std::string spec, const std::string& name);
Result<std::shared_ptr<Map>> make_debug(std::string spec, const std::string& name, const OpenOptions& options);
/// Tables that other processes serve.
Result<std::shared_ptr<Map>> make_socketmap(std::string spec, const std::string& name);
Result<std::shared_ptr<Map>> make_tcp(std::string spec, const std::string& name);
/// Tables in databases: the types of database_table.h.
std::shared_ptr<Map> make_database(std::string spec, const std::string& type, const std::string& name,
                                   const OpenOptions& options);
std::shared_ptr<Map> make_memcache(std::string spec, const std::string& name, const OpenOptions& options);
/// A table that cannot be opened: every look-up returns the error.
std::shared_ptr<Map> make_broken(std::string spec, Error why);

/// The text between the outer braces; without braces: all of it.
std::string_view unbraced(std::string_view text);

}  // namespace pen::map
