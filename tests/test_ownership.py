"""State has one owner: an attribute is assigned by the class that has it, and others call its methods."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import sash

ROOT = Path(sash.__file__).parent

OF_OTHER_PACKAGES = {
    "cli/main.py: warnings.showwarning",
    "expressions/parsed_sql.py: logger.disabled",
    "frames/accessors.py: spec.loader.exec_module",
    "frames/pandas_adapter.py: extended.columns",
    "kernels/column/per_key.py: kernel.error_model",
    "kernels/jit/cache.py: dispatcher._cache",
    "kernels/jit/cache.py: found.library._shared_module",
    "kernels/jit/compile.py: made.library._shared_module",
    "kernels/jit/cache.py: _held.now",
    "kernels/jit/inner_code.py: function.linkage",
    "kernels/jit/inner_code.py: ll_module.data_layout",
    "kernels/jit/inner_code.py: self.state.library",
    "kernels/jit/numba_arrays.py: columns.chunks",
    "kernels/jit/numba_arrays.py: columns.directory",
    "kernels/jit/numba_arrays.py: columns.length",
    "kernels/jit/numba_arrays.py: columns.limit",
    "kernels/jit/numba_arrays.py: columns.mask",
    "kernels/jit/numba_arrays.py: columns.skipped",
    "kernels/jit/numba_arrays.py: columns.start",
    "kernels/jit/numba_arrays.py: columns.times",
    "kernels/jit/numba_arrays.py: setattr(columns)",
    "kernels/jit/numba_intrinsics.py: setattr(helper)",
    "kernels/jit/numba_intrinsics.py: setattr(state)",
    "kernels/jit/numba_intrinsics.py: setattr(structure)",
    "kernels/jit/numba_methods.py: cell.cell_contents",
    "kernels/jit/numba_struct.py: setattr(context.make_data_helper(…))",
    "kernels/jit/inner_code.py: result.fndesc.calltypes",
    "kernels/jit/inner_code.py: result.fndesc.typemap",
    "kernels/jit/inner_code.py: self.state.typingctx",
    "kernels/jit/word_operations.py: builder.store(…).align",
    "kernels/jit/word_operations.py: value.align",
    "monoids/algebra.py: function.noinline",
    "monoids/sketches.py: words.flags.writeable",
    "spark/stream/plan_stream.py: frame.__class__",
    "spark/stream/plan_stream.py: frame._sash_spec",
    "spark/stream/plan_stream.py: writer.__class__",
    "spark/stream/plan_stream.py: writer._sash_options",
    "spark/stream/plan_stream.py: writer._sash_session",
    "spark/stream/plan_stream.py: writer._sash_spec",
    "stores/rocksdb_store.py: self._write.sync",
}
"""Objects of Python, NumPy, pandas, Numba, pyspark and rocksdict, which have no method for it."""


SHARED_BY_DESIGN = {
    "engine/keyed/ahead_assigner.py: self.arena.ring[]",
    "state/bucket_log.py: engine.table.add()",
    "state/bucket_log.py: self.engine.table[]",
    "state/durable.py: engine.table.add()",
    "state/durable.py: self.engine.table[]",
    "engine/keyed/live_aggregate.py: self.arena.columns[]",
    "engine/emit/emitter.py: engine.table.add()",
    "engine/emit/emitter.py: self.engine.table[]",
    "engine/keyed/pane_assigner.py: self.arena.columns[]",
    "engine/keyed/row_assigner.py: self.arena.columns[]",
    "engine/keyed/row_assigner.py: self.arena.heads[]",
    "engine/keyed/ahead_assigner.py: self.arena.columns[]",
}
"""Columns of a slot table or arena that the writer has added itself, or stores for the one that has."""


CONTAINERS_OF_OTHERS = {
    "cli/job_script.py: sys.path[]",
    "engine/intake/progress.py: made.__dict__.update()",
    "frames/accessors.py: sys.meta_path.insert()",
    "frames/pandas_adapter.py: frame.columns.insert()",
    "kernels/jit/numba_methods.py: copy.__dict__.update()",
    "kernels/jit/inner_code.py: function._impl_keys[]",
    "spark/session.py: os.environ[]",
    "spark/shipping.py: os.environ[]",
    "spark/worker_io.py: os.environ[]",
}
"""Containers of Python, pandas and Numba, which have no other method for it."""


MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "fill", "insert", "pop", "popitem", "popleft"),
    *("remove", "setdefault", "sort", "update"),
}
"""Methods that change a list, dict, set, deque or array."""


OF_FUNCTIONS = {"__doc__", "__kwdefaults__", "__module__", "__name__", "__qualname__", "__signature__"}
"""Attributes of functions that kernels and decorators set."""


class Classes:
    """The attributes that each class of sash has, with those of its bases."""

    def __init__(self, trees: list[ast.Module]) -> None:
        nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
        self.bases = {node.name: [ast.unparse(base).partition("[")[0] for base in node.bases] for node in nodes}
        self.own: dict[str, set[str]] = {}
        for node in nodes:
            self.own.setdefault(node.name, set()).update(declared(node))

    def attributes(self, name: str) -> set[str]:
        return self.own.get(name, set()).union(*(self.attributes(base) for base in self.bases.get(name, ())))


def declared(node: ast.ClassDef) -> Iterator[str]:
    """The attributes that a class declares, or assigns to `self`."""
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id
        elif isinstance(one, ast.Assign):
            yield from (target.id for target in one.targets if isinstance(target, ast.Name))
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and isinstance(one.ctx, ast.Store) and is_self(one.value):
            yield one.attr


def is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def without_arguments(node: ast.expr) -> str:
    text = ast.unparse(node)
    return f"{text.partition('(')[0]}(…)" if "(" in text else text


def assigned_from_outside(tree: ast.AST, classes: Classes, owner: str = "") -> Iterator[str]:
    """The attributes that are assigned outside of their class. A class may complete other objects of its own kind."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and not is_self(node.value):
            is_own = isinstance(node.value, ast.Name) and node.attr in classes.attributes(owner)
            if not is_own and node.attr not in OF_FUNCTIONS:
                yield f"{without_arguments(node.value)}.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr" and not owner:
            yield f"setattr({without_arguments(node.args[0])})"
        yield from assigned_from_outside(node, classes, node.name if isinstance(node, ast.ClassDef) else owner)


def without_subscripts(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Subscript):
        node = node.value
    return node


def is_view(node: ast.expr) -> bool:
    """Whether an expression is an attribute, or a column of one by its name: indexing by an array copies."""
    while isinstance(node, ast.Subscript):
        names = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not any(isinstance(name, ast.JoinedStr | ast.Constant | ast.Call) for name in names):
            return isinstance(node.slice, ast.Name) and node.slice.id == "name" and is_view(node.value)
        node = node.value
    return isinstance(node, ast.Attribute)


def local_names(function: ast.AST) -> dict[str, ast.expr]:
    """The local names of attributes in a function."""
    found: dict[str, ast.expr] = {}

    def bind(target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name) and is_view(value):
            found[target.id] = without_subscripts(value)
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for pair in zip(target.elts, value.elts, strict=False):
                bind(*pair)

    for node in ast.walk(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bind(target, node.value)
    return found


def changed_from_outside(
    tree: ast.AST, classes: Classes, owner: str = "", names: dict[str, ast.expr] | None = None
) -> Iterator[str]:
    """The containers in attributes that are changed outside of their class, also by a local name."""
    names = names or {}
    for node in ast.iter_child_nodes(tree):
        target, how = None, "[]"
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            target = without_subscripts(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS:
            target, how = without_subscripts(node.func.value), f".{node.func.attr}()"
        if isinstance(target, ast.Name):
            target = names.get(target.id)
        if isinstance(target, ast.Attribute) and not is_self(target.value):
            is_own = isinstance(target.value, ast.Name) and target.attr in classes.attributes(owner)
            if not is_own:
                yield f"{without_arguments(target)}{how}"
        known = local_names(node) if isinstance(node, ast.FunctionDef) else names
        yield from changed_from_outside(node, classes, node.name if isinstance(node, ast.ClassDef) else owner, known)


def test_containers_are_changed_by_the_class_that_has_them() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    classes = Classes(list(trees.values()))
    found = {
        f"{path.relative_to(ROOT)}: {target}"
        for path, tree in trees.items()
        for target in changed_from_outside(tree, classes)
    }
    assert found == SHARED_BY_DESIGN | CONTAINERS_OF_OTHERS


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("self.x[0] = 1; self.x.append(1)", []),
        ("twin = Owner(); twin.x[0] = 1", []),
        ("other.y[0] += 1", ["other.y[]"]),
        ("del other.y['a'][0]", ["other.y[]"]),
        ("self.x.y.append(1)", ["self.x.y.append()"]),
        ("y = other.y; y[0] = 1", ["other.y[]"]),
        ("x, y = self.x, other.y['a']; x[0] = y[0] = 1", ["other.y[]"]),
        ("y = other.y[self.x]; y[0] = 1", []),
        ("y = other.y; y.sort()", ["other.y.sort()"]),
    ],
)
def test_the_check_finds_changes_from_outside(body: str, found: list[str]) -> None:
    source = f"class Owner:\n  x: int\n  def method(self, other):\n    {body}\n"
    tree = ast.parse(source)
    assert list(changed_from_outside(tree, Classes([tree]))) == found


def test_attributes_are_assigned_by_their_class_alone() -> None:
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(ROOT.rglob("*.py"))}
    classes = Classes(list(trees.values()))
    found = {
        f"{path.relative_to(ROOT)}: {target}"
        for path, tree in trees.items()
        for target in assigned_from_outside(tree, classes)
    }
    assert found == OF_OTHER_PACKAGES


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("self.x = 1", []),
        ("twin = Owner()\n    twin.x, y = 1, 2", []),
        ("other.y = 1", ["other.y"]),
        ("del other.y", ["other.y"]),
        ("other.__dict__ = {}", ["other.__dict__"]),
        ("self.part.x += 1", ["self.part.x"]),
        ("twin = Owner(); twin.z: int = 1", ["twin.z"]),
    ],
)
def test_the_check_finds_assignments_from_outside(body: str, found: list[str]) -> None:
    source = f"class Owner:\n  x: int\n  def method(self, other):\n    {body}\n"
    tree = ast.parse(source)
    assert list(assigned_from_outside(tree, Classes([tree]))) == found
