#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "compiler/algorithm/names.h"
#include "compiler/support/match.h"
#include "compiler/tile/ir.h"

namespace astatide::tile {
namespace {

std::string print_scalar(double value) {
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  if (std::isnan(value)) return "nan";
  char buffer[40];
  return {buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr};
}

std::string print_index(const Expr& e) { return print_expr(e, {}, true); }
std::string print_element(const Expr& e) { return to_string(e); }

template <class Items, class F>
std::string join(const Items& items, const char* separator, F text) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    out += text(item);
  }
  return out;
}

std::string print_coordinates(const std::vector<Coordinate>& at) {
  return join(at, ", ", [](const Coordinate& c) {
    return c.axis + " = " + print_index(c.origin) + (c.limit ? " < " + print_index(*c.limit) : "");
  });
}

std::string print_absent(double absent) { return absent == 0 ? "" : " absent " + print_scalar(absent); }

std::string print_view(const View& view) {
  std::string out = print_index(read(view.tensor, view.indices));
  if (!view.at.empty()) out += " at " + print_coordinates(view.at);
  return out + print_absent(view.absent);
}

std::string print_operand(const Operand& operand) {
  return match(
      operand, [](const TileName& tile) { return tile; },
      [](const View& view) { return "(" + print_view(view) + ")"; });
}

std::string print_operand(const CopyOperand& operand) {
  return match(
      operand, [](const TileName& tile) { return tile; }, [](const View& view) { return print_view(view); },
      [](const Strip& strip) {
        return strip.tile + " at " + print_coordinates(strip.at) + print_absent(strip.absent);
      });
}

std::string print_columns(const std::optional<Columns>& columns) {
  if (!columns) return "";
  return " cols " + std::to_string(columns->begin) + ".." + std::to_string(columns->end);
}

std::string print_token(const std::string& token) { return token.empty() ? "" : " -> " + token; }

std::string print_map(const Map& s) {
  std::string out = "map " + s.dst + print_columns(s.columns) + " = " + print_element(s.value);
  if (s.polynomial) out += " polynomial " + to_string(*s.polynomial);
  if (!s.where_predicates.empty()) {
    out += " where ";
    out += join(s.where_predicates, " and ", [&](const Expr& e) {
      const bool loose = e.is_call(Op::logical_or);
      return loose ? "(" + print_element(e) + ")" : print_element(e);
    });
  }
  if (s.absent) out += " absent " + print_scalar(*s.absent);
  if (!s.at.empty()) out += " at " + print_coordinates(s.at);
  return out;
}

std::string print_mma(const Mma& s) {
  std::string out = "mma " + s.dst + (s.accumulate ? " += " : " = ");
  out += print_operand(s.lhs) + " * " + print_operand(s.rhs);
  if (s.by != Family::unset) out.append(" by ").append(name_of(s.by));
  if (s.tf32) out += " tf32";
  if (s.unroll != 0) out += " unroll " + std::to_string(s.unroll);
  return out + print_token(s.token);
}

std::string print_copy(const Copy& s) {
  std::string out = "copy " + print_operand(s.dst) + " <- " + print_operand(s.src);
  if (s.via != Via::unset) out.append(" via ").append(name_of(s.via));
  if (s.vector != 0) out += " width " + std::to_string(s.vector);
  if (s.boxes != 1) out += " boxes " + std::to_string(s.boxes);
  if (s.multicast) out += " multicast";
  return out + print_token(s.token);
}

std::string print_advance(const Advance& s) {
  std::string out = "advance ";
  out += join(s.updates, ", ", [](const Advance::Update& u) {
    return u.tile + " to " + std::string(name_of(u.op)) + "(" + u.tile + ", " + u.candidate + ")";
  });
  if (s.slack) {
    out += " lazy " + print_element(s.slack->growth) + " > " + std::to_string(s.slack->grow);
    if (!s.slack->witnesses.empty())
      out += " optimistic " + join(s.slack->witnesses, ", ", [](const TileName& t) { return t; }) + " > 2^" +
             std::to_string(s.slack->over);
  }
  if (s.moving.empty()) return out;
  return out + " moving " +
         join(s.moving, ", ", [](const Advance::Move& m) { return m.tile + " by " + print_element(m.by); });
}

std::string print_for(const For& s) {
  std::string out = "for " + s.var + " in " + print_index(s.begin) + " .. " + print_index(s.end);
  if (s.descending) out += " descending";
  switch (s.kind) {
    case For::Kind::serial:
      out += s.unroll > 1 ? " serial unroll " + std::to_string(s.unroll) + (s.padded ? " padded" : "") : " serial";
      break;
    case For::Kind::unrolled:
      out += " unrolled";
      break;
    case For::Kind::once:
      out += " once";
      break;
    case For::Kind::teams:
      out += " teams";
      break;
  }
  return out + (s.note.empty() ? "" : "  # " + s.note);
}

/// The first line of a statement.
std::string print_head(const Stmt& stmt) {
  return match(
      stmt.node, [](const For& s) { return print_for(s); },
      [](const If& s) {
        return "if " + print_element(s.condition) +
               (s.uniform == If::Uniform::warp ? " uniform warp" : " uniform block") + (s.cold ? " cold" : "");
      },
      [](const Role& s) {
        return "role " + s.name + " x" + std::to_string(s.count) +
               (s.registers != 0 ? " registers " + std::to_string(s.registers) : "");
      },
      [](const Let& s) {
        return "let " + s.name + " = " + print_index(s.value) + (s.own ? " own " + print_index(*s.own) : "") +
               (s.dealt ? " dealt" : "");
      },
      [](const Fill& s) { return "fill " + s.dst + " = " + print_scalar(s.value); },
      [](const Map& s) { return print_map(s); },
      [](const RowReduce& s) {
        const std::string op(name_of(s.op));
        return "row_reduce " + s.dst + (s.accumulate ? " " + op + "= " : " = ") + op + " " + s.src +
               print_columns(s.columns);
      },
      [](const AllReduce& s) { return "all_reduce " + s.tile + " " + std::string(name_of(s.op)); },
      [](const Vote& s) { return "vote " + s.flag + " = any " + print_element(s.condition); },
      [](const Mma& s) { return print_mma(s); }, [](const Copy& s) { return print_copy(s); },
      [](const Await& s) { return "await " + s.token + (s.open > 0 ? " open " + std::to_string(s.open) : ""); },
      [](const Advance& s) { return print_advance(s); },
      [](const Reserve& s) { return "reserve " + s.tile + (s.ahead ? " ahead " + print_view(*s.ahead) : ""); },
      [](const Acquire& s) {
        return "acquire " + s.tile + (s.open > 0 ? " open " + std::to_string(s.open) : "") +
               (s.at.empty() ? "" : " at " + print_coordinates(s.at));
      },
      [](const Release& s) { return "release " + s.tile + (s.apart ? " apart" : ""); },
      [](const Sync& s) { return std::string(s.team ? "sync team" : "sync"); },
      [](const Turn& s) { return std::string(s.what == Turn::Do::take ? "turn take" : "turn pass"); },
      [](const Arrive& s) {
        return "arrive " + s.flag + " = last of " + print_index(s.of) + " at " + s.counters + "[" +
               join(s.indices, ",", print_index) + "] for " +
               join(s.stores, ", ", [](const std::string& tensor) { return tensor; });
      });
}

std::string print_grid(const ThreadGrid& grid) {
  return "thread_grid<" + std::to_string(grid.rows) + "x" + std::to_string(grid.columns) + ", " +
         std::to_string(grid.row_vector) + "x" + std::to_string(grid.column_vector) +
         (grid.row_unit != 1 ? " by " + std::to_string(grid.row_unit) : "") + ">";
}

std::string print_layout(const Layout& layout) {
  return match(
      layout, [](std::monostate) { return std::string(); },
      [](const Rows& rows) {
        return std::string(" layout rows") + (rows.pitch != 0 ? " pitch " + std::to_string(rows.pitch) : "");
      },
      [](const Panels&) { return std::string(" layout panels"); },
      [](const ThreadGrid& grid) { return " layout " + print_grid(grid); },
      [](const RowsOf& rows) { return " layout rows of " + print_grid(rows.grid); });
}

std::string print_align(const AxisNumbers& align) {
  if (align.empty()) return "";
  return " align " +
         join(align, ", ", [](const auto& entry) { return entry.first + " " + std::to_string(entry.second); });
}

std::string print_staging(const Staging& s) {
  std::string out = "stage " + s.tensor + " at " + s.at + " in " + std::string(name_of(s.space));
  if (s.ring != 1) out += " ring " + std::to_string(s.ring);
  if (s.vector != 0) out += " width " + std::to_string(s.vector);
  if (s.via != Via::vector) out.append(" via ").append(name_of(s.via));
  return out + print_align(s.align) + (s.held ? " held" : "");
}

std::string shape_of(const Mem& mem) {
  return std::string(name_of(mem.type)) + "[" +
         join(mem.dims, ", ", [](const Dim& dim) { return dim.axis + ": " + std::to_string(dim.extent); }) + "]";
}

std::string attributes_of(const Mem& mem) {
  std::string out = "in " + std::string(name_of(mem.space));
  if (mem.ring != 1) out += " ring " + std::to_string(mem.ring);
  out += print_layout(mem.layout);
  if (mem.partial) out.append(" partial ").append(name_of(*mem.partial));
  if (!mem.alias.empty()) out += " alias " + mem.alias;
  out += print_align(mem.align);
  if (mem.offset >= 0) out += " offset " + std::to_string(mem.offset);
  return out;
}

std::string padded(std::string text, std::size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

std::string print_mems(const std::vector<Mem>& mems) {
  std::size_t names = 0;
  std::size_t shapes = 0;
  for (const Mem& mem : mems) {
    names = std::max(names, mem.name.size() + 1);
    shapes = std::max(shapes, shape_of(mem).size());
  }
  std::string out;
  for (const Mem& mem : mems)
    out += "  " + padded(mem.name + ":", names) + " " + padded(shape_of(mem), shapes) + " " + attributes_of(mem) + "\n";
  return out;
}

std::string print_tensor(const Tensor& tensor) {
  const char* role = tensor.role == Tensor::Role::input      ? "input   "
                     : tensor.role == Tensor::Role::output   ? "output  "
                     : tensor.role == Tensor::Role::counters ? "counters "
                     : tensor.role == Tensor::Role::block    ? "block   "
                                                             : "scratch ";
  return role + tensor.name + ": " + std::string(name_of(tensor.type)) + "[" + join(tensor.dims, ", ", print_index) +
         (tensor.monotone ? "] monotone" : "]") + (tensor.updated ? " updated" : "") +
         (tensor.offset >= 0 ? " offset " + std::to_string(tensor.offset) : "");
}

std::string print_numbers(const std::map<std::string, std::int64_t>& numbers, const char* relation) {
  return join(numbers, ", ", [&](const auto& entry) { return entry.first + relation + std::to_string(entry.second); });
}

}  // namespace

std::string print(const Stmt& stmt, int indent) {
  std::string out = std::string(static_cast<std::size_t>(indent), ' ') + print_head(stmt) + "\n";
  if (const Block* body = nested_block(stmt))
    for (const Stmt& inner : *body) out += print(inner, indent + 2);
  return out;
}

std::string head_of(const Stmt& stmt) {
  const std::string text = print(stmt);
  return text.substr(0, text.find('\n'));
}

std::string print(const Kernel& kernel) {
  std::string out = "kernel " + kernel.name + " tiles(" +
                    join(kernel.tiles, ", ",
                         [](const TileAxis& a) {
                           return a.var + ": " + print_index(a.count) + (a.descending ? " descending" : "");
                         }) +
                    ")";
  if (kernel.tile_group) out += " groups " + print_index(*kernel.tile_group);
  if (kernel.exists) out += " where " + print_index(*kernel.exists);
  if (kernel.persistent) out += " persistent " + std::string(name_of(*kernel.persistent));
  if (kernel.dependent) out += " dependent";
  if (kernel.cluster) out += " cluster " + kernel.cluster->var + " " + std::to_string(kernel.cluster->blocks);
  if (kernel.threads() != 0)
    out += " threads " + std::to_string(kernel.thread_rows) + " x " + std::to_string(kernel.thread_columns);
  if (kernel.teams > 1) out += " teams " + std::to_string(kernel.teams);
  if (kernel.producers != 0) out += " producers " + std::to_string(kernel.producers);
  if (!kernel.warpgroup.empty()) out += " warpgroup " + kernel.warpgroup;
  if (kernel.alternate) out += " alternate";
  if (kernel.mask_map) out += " mask_map";
  if (kernel.maps_masks) out += " of masks";
  if (kernel.vector_lanes != 0) out += " lanes " + std::to_string(kernel.vector_lanes);
  if (kernel.shared_bytes >= 0) out += " shared " + std::to_string(kernel.shared_bytes);
  if (kernel.blocks > 1) out += " blocks " + std::to_string(kernel.blocks);
  out += "\n";
  for (const Staging& staging : kernel.stagings) out += "  " + print_staging(staging) + "\n";
  if (kernel.overlap)
    out += "  overlap " + kernel.overlap->product + " cover " + to_string(kernel.overlap->cover) + "\n";
  for (const TileName& tile : kernel.holds) out += "  hold " + tile + "\n";
  out += print_mems(kernel.mems);
  for (const Stmt& stmt : kernel.body) out += print(stmt, 2);
  return out;
}

std::string print(const Program& program) {
  const auto same = [](const std::string& name) { return name; };
  std::string out = "program " + program.name + "\n";
  if (!program.extents.empty()) out += "extents " + join(program.extents, ", ", same) + "\n";
  if (program.parts)
    out += "parts " + program.parts->extent + " of " + program.parts->kernel + " for " +
           print_index(program.parts->blocks) + " blocks each, at most " + print_index(program.parts->most) + "\n";
  if (!program.known.empty()) out += "known " + print_numbers(program.known, " = ") + "\n";
  if (!program.bounds.empty()) out += "bound " + print_numbers(program.bounds, " <= ") + "\n";
  for (const Multiple& multiple : program.multiples)
    out += "multiple " + to_string(multiple.value) + " of " + to_string(multiple.of) + "\n";
  if (!program.scalars.empty()) out += "scalars " + join(program.scalars, ", ", same) + "\n";
  if (!program.approximate.empty())
    out += "approximate " + join(program.approximate, ", ", [](Op op) { return std::string(info(op).name); }) + "\n";
  for (const Tensor& tensor : program.tensors) out += print_tensor(tensor) + "\n";
  for (const Kernel& kernel : program.kernels) out += "\n" + print(kernel);
  return out;
}

}  // namespace astatide::tile
